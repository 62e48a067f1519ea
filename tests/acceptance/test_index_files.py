"""``memsearch index`` of folders: what is left out, and what leaves the index for it."""

from __future__ import annotations

import json

from world import World


def test_patterns_leave_files_out_and_take_them_out_again(world: World) -> None:
    docs = world.project / "docs"
    for name in ("keep", "drafts/wombat", "build/numbat", "node_modules/quoll", ".git2/bilby"):
        path = docs / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# About\n\nThe {path.stem} story\n", "utf-8")
    (docs / "loop").symlink_to(docs)
    world.memory.mkdir(parents=True)
    (world.memory / "MEMORY.md").write_text("# Mine\n\nThe bettong rule\n", "utf-8")
    (world.project / ".gitignore").write_text("build/\n.memsearch/\n", "utf-8")

    def index(*arguments: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(world.run("index", "--json", *arguments).stdout)
        return found

    first = index(str(docs))
    assert (first["seen"], first["excluded"]) == (3, 0)
    (world.project / ".memsearch.toml").write_text(
        '[indexing]\nignore_files = [".gitignore"]\nexclude = ["drafts"]\n', "utf-8"
    )
    second = index(str(docs))
    assert (second["seen"], second["queued"], second["excluded"]) == (1, 0, 2)
    sources = {row[0] for row in world.sql("SELECT source FROM documents WHERE state = 'done'")}
    assert sources == {"docs/keep.md", ".memsearch/memory/MEMORY.md"}
    assert all("wombat" not in found["content"] for found in world.search("wombat story"))
    # A project's own memory is indexed whatever .gitignore says; a named file, too.
    assert index()["seen"] == 1
    assert index(str(docs / "drafts" / "wombat.md"))["seen"] == 1
    assert world.search("bettong")[0]["source"] == ".memsearch/memory/MEMORY.md"
    assert "wombat" in world.search("wombat story")[0]["content"]
