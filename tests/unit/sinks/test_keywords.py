import re
import threading
import time
from datetime import date

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memsearch.sinks.chunker import chunk_document
from memsearch.sinks.keywords import (
    MAX_KEYWORDS_BYTES,
    MAX_TOKEN_CHARS,
    chunk_keywords,
    day_words,
    identifiers,
    keywords,
    query_keywords,
)
from memsearch.sinks.stopwords import CHINESE, CHINESE_KEPT, ENGLISH


def code(text: str) -> str:
    """A token of another script, spelled out."""
    return "".join(c if c.isascii() else f"u{ord(c):04x}" for c in text)


def codes(text: str) -> str:
    return " ".join(code(word) for word in text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("?! … — 。", ""),
        # stems, case, stop words
        ("Running tests; the tests RAN", "run test test ran"),
        ("authentication authenticated", "authent authent"),
        ("What did we decide about the caching?", "decid cach"),
        ("I don't know, it's the user's", "know user"),
        ("don’t", "dont"),  # nothing else is there, so stop words stay
        ("to be or not to be", "to be or not to be"),
        ("May March", "may march"),
        # names whole and split
        ("getUserById", "getuserbyid get user id"),
        ("get_user_by_id", "getuserbyid get user id"),
        ("get-user-by-id", "getuserbyid get user id"),
        ("HTTPServer parseXML", "httpserver http server parsexml pars xml"),
        ("IDs URLs", "id url"),
        ("the user ID I'd want", "user id want"),
        ("README", "readm"),
        ("_private __init__.py", "privat initpi init py"),
        ("MAX_CHUNK_SIZE", "maxchunks max chunk size"),
        ("memsearch.sinks.journal", "memsearchsinksjourn memsearch sink journal"),
        ("std::vec::Vec", "stdvecvec std vec"),
        ("me.too@example.com", "metooexamplecom metoo examplecom exampl com"),
        # paths
        ("src/auth/login.ts", "srcauthlogint src auth logint login ts"),
        (r"C:\src\login.ts", "c srclogint src logint login ts"),
        ("src/login.ts:12:5", "srclogint src logint login ts 12 5"),
        ("https://example.com/a/login?x=1", "examplecomalogin examplecom exampl com login x 1"),
        # codes, versions, numbers
        ("TS2345 E0382", "ts2345 ts 2345 e0382 0382"),
        ("HTTP-404 HTTP 404", "http404 http 404 http 404"),
        ("v1.2.3 1.2.3", "1p2p3 1p2 1p2p3 1p2"),
        ("123 1.23 12.3", "123 1p23 12p3"),
        ("#123 PR 123", "no123 123 pr 123"),
        ("10,000 1,2", "10000 1 2"),
        ("sha256 utf8 e5", "sha256 sha 256 utf8 utf e5"),
        ("43a790c54535359f", "43a790c54535359f 43a790c"),
        ("43a790c", "43a790c"),
        (
            "123E4567-e89b-12d3-a456-426614174000",
            "123e4567e89b12d3a456426614174000 123e4567",
        ),
        ("2026-03-03 14:47 March 3rd", "2026p03p03 2026p03 14p47 march 3"),
        ("C++ C# C", "cplusplus csharp c"),
        # Chinese: bigrams, parted at function words; mixed scripts
        ("备份脚本", codes("备份 份脚 脚本")),
        ("備份腳本", codes("备份 份脚 脚本")),
        ("為什麼這個還沒有更新", codes("还 更新")),
        ("Fixed 🐛 👍🏽 👩‍💻 ✅ →", "fix " + codes("🐛 👍 👩 💻 ✅")),
        ("我们的备份为什么失败了", codes("备份 失败")),
        ("目的", codes("目的")),
        ("我们是什么", codes("我们 们是 是什 什么")),
        ("修复GitHub备份", codes("修复") + " github git hub " + codes("备份")),
        ("猫", codes("猫")),
        ("第3章", codes("第") + " 3 " + codes("章")),
        ("3月3日 03月03号 2026年3月", codes("3月 3月3日 3月 3月3日 2026 3月")),
        # others
        ("パスワード", codes("パス スワ ワー ード")),
        ("ﾊﾟｽ ＡＢＣ１２３", codes("パス") + " abc123 abc 123"),
        ("비밀번호", codes("비밀 밀번 번호")),
        ("Straße naïve İstanbul Ærø", "strass naiv istanbul aero"),
        ("nai\u0308ve", "naiv"),
        ("Привет мир", codes("привет мир")),
        ("zero\u200bwidth so\u00adft", "zerowidth soft"),
        # comments and anchors
        ("<!-- session:abc turn:def -->\n- hello <!-- x --> world", "hello world"),
    ],
)
def test_keywords(text: str, expected: str) -> None:
    assert keywords(text) == expected
    assert query_keywords(text) == expected


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("fixed getUserById in src/auth/login.ts", "get_user_by_id"),
        ("fixed getUserById in src/auth/login.ts", "login.ts"),
        ("fixed getUserById in src/auth/login.ts:88", "src/auth/login.ts"),
        ("upgraded to python 3.11.4", "Python 3.11"),
        ("see commit 43a790c54535359f00112233445566778899aabb", "43a790c5"),
        ("error TS2345 in build", "ts2345"),
        ("closed #123", "issue 123"),
        ("修复 GitHub 备份脚本上传超时", "备份脚本失败"),
        ("修复 GitHub 备份脚本上传超时", "上传为什么超时"),
        ("修復 GitHub 備份腳本上傳逾時", "备份脚本失败"),
        ("优化了图片压缩", "圖片壓縮"),
        ("Replaced 🔥 by 🐛 in the template", "🐛"),
        # A name is asked for in lower case, as a word.
        ("Node.js and SQLAlchemy", "nodejs"),
        ("Node.js and SQLAlchemy", "sqlalchemy"),
        ("CloudFormation", "cloudformation"),
        ("file_name", "filename"),
        ("ＡＰＩ 网关", "api"),
        ("caching layer", "how do we cache layers"),
    ],
)
def test_text_and_question_meet(text: str, query: str) -> None:
    shared = set(keywords(text).split()) & set(query_keywords(query).split())
    assert shared
    # The first token of the question, the whole name, is among them where it is one.
    if identifiers(query) and "43a790c5" not in query:
        assert query_keywords(query).split()[0] in shared


@pytest.mark.parametrize(
    "question",
    ["March 3rd", "3 March", "3月3日", "3月3号", "2026-03-03", "March 2026", "2026年3月"],
)
def test_the_day_is_found_in_words(question: str) -> None:
    text = set(keywords("a note", day=20260303).split())
    assert set(query_keywords(question).split()) <= text
    assert not set(query_keywords(question).split()) <= set(
        keywords("a note", day=20251214).split()
    )


def test_day_words() -> None:
    assert day_words(20260303) == "2026-03-03 3 March 2026 3月3日"
    assert keywords("", day=20260303) == keywords(day_words(20260303))
    with pytest.raises(ValueError, match="month"):
        day_words(20261303)
    for month in range(1, 13):
        assert date(2026, month, 1).strftime("%m") in keywords("", day=20260001 + month * 100)


def test_later_pieces_of_a_section_have_its_heading() -> None:
    text = "# Database migration\n" + "\n".join(f"line {n} of text" for n in range(20))
    chunks = chunk_document(text, "2026-03-03.md", max_chunk_size=100)
    assert len(chunks) > 2
    for chunk in chunks:
        assert "databas" in chunk_keywords(chunk).split()
        assert chunk_keywords(chunk).split().count("databas") == 1
        assert "2026p03p03" in chunk_keywords(chunk).split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what did we decide about caching?", []),
        ("a well-known, state-of-the-art tool", []),
        ("read/write and/or", []),
        ("on 2026-03-03 at 14:47, the 3rd of 12 (1.5 s)", []),
        ("e.g. this, i.e. that.", []),
        ("_emphasis_ and **bold**", []),
        ("我们什么时候修复的备份脚本", []),
        ("why getUserById and get_user fail", ["getUserById", "get_user"]),
        ("src/auth/login.ts ./bin/x ~/y", ["src/auth/login.ts", "bin/x"]),
        ("config.toml __init__", ["config.toml", "__init__"]),
        ("TS2345, E0382 or HTTP-404", ["TS2345", "E0382", "HTTP-404"]),
        ("v1.2.3 or 3.11.4", ["v1.2.3", "3.11.4"]),
        ("#123 and 43a790c5", ["#123", "43a790c5"]),
        ("run `make test` with `fmt` and --no-verify", ["fmt", "no-verify"]),
        ("C++ or C#", ["C++", "C#"]),
        ("修复 GitHub 的 getUser 和 getUser", ["GitHub", "getUser"]),
    ],
)
def test_identifiers(text: str, expected: list[str]) -> None:
    assert identifiers(text) == expected


ANY_TEXT = st.text() | st.text(
    alphabet=st.sampled_from("aZ09_-./\\:@'#+,` 备份的了月日年3かパ한글ä\u0301\u200d<!->")
)


@given(ANY_TEXT, st.sampled_from([0, 20260303]))
def test_tokens_are_whole_to_every_analyzer(text: str, day: int) -> None:
    tokens = keywords(text, day=day).split(" ")
    if tokens != [""]:
        assert all(re.fullmatch("[0-9a-z]+", token) for token in tokens)
        assert all(len(token) <= MAX_TOKEN_CHARS for token in tokens)
    assert keywords(text, day=day) == " ".join(tokens)


@given(ANY_TEXT)
def test_a_text_with_a_letter_is_never_empty(text: str) -> None:
    identifiers(text)
    if "<!--" not in text and re.search("[A-Za-z0-9备份的了]", text):
        assert keywords(text)


STOPS = frozenset("的 了 我们 为什么 在".split())


@given(st.lists(st.sampled_from([*STOPS, "备份", "脚本", "了解", "目的", "猫"]), min_size=1))
def test_a_chinese_question_finds_the_text_that_holds_it(words: list[str]) -> None:
    assume(set(words) - STOPS)
    question = "".join(words)
    text = f"昨天，{question}。"
    assert set(query_keywords(question).split()) <= set(keywords(text).split())


def test_the_field_s_limit() -> None:
    for text in ("汉" * 70_000, "word " * 20_000, "x" * 100_000):
        found = keywords(text, day=20260303)
        assert len(found.encode()) <= MAX_KEYWORDS_BYTES
        assert not found.endswith(" ")
    assert len(keywords("汉" * 70_000)) > MAX_KEYWORDS_BYTES - 20
    assert set(keywords("汉" * 70_000).split()) == {code("汉汉")}


def test_long_tokens_become_hashes() -> None:
    assert re.fullmatch("h[0-9a-f]{16}", keywords("x" * 41))
    assert keywords("x" * 40) == "x" * 40
    assert keywords("x" * 41) != keywords("x" * 42)


def test_stop_words_are_single_and_lower_case() -> None:
    assert all(word == word.lower() and word.isalpha() for word in ENGLISH)
    assert not CHINESE & CHINESE_KEPT
    # A kept word that holds no stop word would do nothing.
    assert all(any(stop in word for stop in CHINESE) for word in CHINESE_KEPT)


def test_threads_do_not_disturb_each_other() -> None:
    words = [f"running{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}nesses" for n in range(600)]
    expected = [keywords(word) for word in words]
    results: list[list[str]] = []

    def work() -> None:
        from memsearch.sinks import keywords as module

        module._name.cache_clear()
        results.append([keywords(word) for word in words])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


@pytest.mark.parametrize(
    "text",
    [unit * (60_000 // len(unit)) for unit in (
        "a.", "a_", "a+", "aB", "1.", "f0", "1,", "<!--", "http://", "é", "'", "a->", "的", "`",
        "1月", "a:1", "__", "٠", "x", "a/b.c:1 ", "b`a",
    )],
    ids=lambda text: repr(text[:8]),
)  # fmt: skip
def test_large_texts_take_one_pass(text: str) -> None:
    begin = time.process_time()
    keywords(text)
    identifiers(text)
    assert time.process_time() - begin < 10  # a quadratic reading takes minutes
