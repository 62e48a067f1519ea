"""What ``sinks.keywords`` promises, held to the real analyzer and BM25 of Milvus Lite."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymilvus import DataType, Function, FunctionType, MilvusClient

from memsearch.sinks.keywords import keywords, query_keywords

FILLERS = [
    f"{verb}了{thing}，{end}" for verb in ("讨论", "修改", "检查", "删除", "整理")
    for thing in ("数据库迁移", "登录页面", "单元测试", "部署流程", "脚本文档")
    for end in ("明天继续", "一切正常")
]  # fmt: skip
TEXTS = [
    "修复 GitHub 备份脚本上传超时",
    "Fixed getUserById in src/auth/login.ts, error TS2345",
    "Upgraded to v1.2.3, closes #123",
    "!!! … ???",
    *FILLERS,
]


class Collection:
    def __init__(self, client: MilvusClient) -> None:
        self.client = client
        schema = client.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("keywords", DataType.VARCHAR, max_length=65535, enable_analyzer=True)
        schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(
            Function(
                name="bm25",
                function_type=FunctionType.BM25,
                input_field_names=["keywords"],
                output_field_names=["sparse"],
            )
        )
        index = client.prepare_index_params()
        index.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
        client.create_collection("words", schema=schema, index_params=index)
        client.load_collection("words")
        rows: list[dict[str, Any]] = [
            {"id": number, "keywords": keywords(text)} for number, text in enumerate(TEXTS)
        ]
        client.insert("words", rows)

    def search(self, tokens: str, limit: int = 100) -> list[int]:
        hits = self.client.search(
            "words", [tokens], anns_field="sparse", limit=limit,
            search_params={"metric_type": "BM25"},
        )  # fmt: skip
        return [hit["id"] for hit in hits[0]]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    from milvus_lite.server_manager import server_manager_instance

    path: Path = tmp_path_factory.mktemp("milvus") / "words.db"
    client = MilvusClient(str(path))
    try:
        yield Collection(client)
    finally:
        client.close()
        server_manager_instance.release_server(str(path))


def test_the_analyzer_leaves_every_token_whole(collection: Collection) -> None:
    for number, text in enumerate(TEXTS):
        for token in keywords(text).split():
            assert number in collection.search(token), token
    # Half a token finds nothing: no analyzer has split them.
    for part in ("u5907", "u4efd", "getuser", "srcauth", "1p", "2345p"):
        assert collection.search(part) == []


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("备份脚本失败", 0),  # among 50 others that share 脚本
        ("脚本上传为什么超时", 0),
        ("get_user_by_id", 1),
        ("login.ts", 1),
        ("TS2345", 1),
        ("1.2.3", 2),
        ("#123", 2),
    ],
)
def test_the_right_text_comes_first(collection: Collection, question: str, number: int) -> None:
    assert collection.search(query_keywords(question), 1) == [number]


def test_nothing_to_search_by_finds_nothing(collection: Collection) -> None:
    assert query_keywords("？！") == ""
    assert collection.search("") == []
