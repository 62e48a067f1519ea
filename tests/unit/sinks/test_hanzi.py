"""Traditional characters and their simplified ones."""

from __future__ import annotations

import unicodedata

from memsearch.sinks.hanzi import TO_SIMPLIFIED


def test_each_is_one_other_han_character_and_stays_one() -> None:
    assert len(TO_SIMPLIFIED) > 1000
    for code, simple in TO_SIMPLIFIED.items():
        assert len(simple) == 1
        assert ord(simple) not in TO_SIMPLIFIED, f"{chr(code)} is two steps away"
        for char in (chr(code), simple):
            assert unicodedata.name(char).startswith("CJK UNIFIED IDEOGRAPH")
            assert unicodedata.normalize("NFKC", char) == char


def test_what_is_simplified_is_as_it_was() -> None:
    text = "重构了发票表格组件并删除无用属性，给审计列表加了分页，后面再看缓存与数据库"
    assert text.translate(TO_SIMPLIFIED) == text


def test_a_sentence() -> None:
    text = "將設定檔備份到伺服器後，錯誤訊息顯示權限不足"
    assert text.translate(TO_SIMPLIFIED) == "将设定档备份到伺服器后，错误讯息显示权限不足"
