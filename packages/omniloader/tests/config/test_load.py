import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniloader.config.load import parse_json, parse_yaml, read_config, read_json, read_yaml
from omniloader.errors import ConfigError, MissingConfigError


def refused(text, parse=parse_yaml, name="c.yaml"):
    with pytest.raises(ConfigError) as caught:
        parse(textwrap.dedent(text), name)
    return str(caught.value)


class TestYaml:
    def test_values_lines_and_spellings_are_kept(self):
        document = parse_yaml("a: 1\nb:\n  - x\n  - no\n", "c.yaml")
        assert document.values == {"a": 1, "b": ["x", False]}
        assert document.lines["b", 1] == 4
        assert document.spellings == {("b", 1): "no"}

    def test_an_empty_file_is_an_empty_config(self):
        assert parse_yaml("# nothing\n", "c.yaml").values == {}

    def test_where_falls_back_to_the_nearest_known_line(self):
        document = parse_yaml("a:\n  b: {c: 1}\n", "c.yaml")
        assert document.where(("a", "b", "zzz")) == "c.yaml:2: "
        assert parse_yaml("", "c.yaml").where(("a",)) == "c.yaml: "

    def test_dates_stay_text(self):
        assert parse_yaml("name: 2024-01-02\neq: =\n", "c.yaml").values == {
            "name": "2024-01-02",
            "eq": "=",
        }

    def test_anchors_and_merges_work_with_lines_of_their_own(self):
        text = "x-base: &b {adapter: npy, path: a}\nd:\n  <<: *b\n  path: b\n"
        document = parse_yaml(text, "c.yaml")
        assert document.values["d"] == {"adapter": "npy", "path": "b"}
        assert document.lines["d", "path"] == 4
        assert document.lines["d", "adapter"] == 1

    def test_a_list_of_merges(self):
        text = "a: &a {k: 1}\nb: &b {k: 2, l: 3}\nc: {<<: [*a, *b]}\n"
        assert parse_yaml(text, "c.yaml").values["c"] == {"k": 1, "l": 3}

    def test_a_duplicate_key_names_both_lines(self):
        assert refused("seed: 1\nbatch_size: 2\nseed: 3\n") == (
            "c.yaml:3: seed: the key stands twice, first on line 1; remove one of them"
        )

    def test_a_nested_duplicate_key_has_its_path(self):
        assert "c.yaml:3: a.b: the key stands twice" in refused("a:\n  b: 1\n  b: 2\n")

    @pytest.mark.parametrize("tag", ["!!python/object/apply:os.getcwd []", "!mine 3", "!!set {a}"])
    def test_tags_are_refused(self, tag):
        assert "is not allowed; a config holds only text" in refused(f"a: {tag}\n")

    @pytest.mark.parametrize(
        ("written", "read"),
        [("012", "10"), ("1:30", "90"), ("-012", "-10"), ("1:30.5", "90.5"), ("0_1", "1")],
    )
    def test_numbers_that_are_not_what_they_look_like(self, written, read):
        assert refused(f"a:\n  seed: {written}\n") == (
            f"c.yaml:2: a.seed: YAML reads {written} as {read}; write that number, "
            f'or "{written}" for the text'
        )

    @pytest.mark.parametrize("key", ["no", "on", "3", "1.5", "~"])
    def test_keys_must_be_text(self, key):
        text = refused(f"a:\n  {key}: 1\n")
        assert text.startswith("c.yaml:2: a key in a must be text, but YAML reads")
        assert text.endswith(f'write "{key}"')

    def test_a_list_as_key(self):
        assert "a key must be text, got a list or mapping" in refused("? [a]\n: 1\n")

    @pytest.mark.parametrize("text", ["\ta: 1\n", "a:\n\tb: 1\n"])
    def test_tabs(self, text):
        with pytest.raises(ConfigError, match="a tab stands where YAML wants spaces; indent with"):
            parse_yaml(text, "c.yaml")

    def test_an_alias_in_a_circle(self):
        assert "an alias stands inside its own anchor" in refused("a: &x [*x]\n")

    def test_aliases_that_explode(self):
        lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]
        assert "the aliases of this file expand to over" in refused("\n".join(lines))

    def test_an_unknown_alias(self):
        assert "not valid YAML: found undefined alias 'b'" in refused("a: *b\n")

    def test_two_documents(self):
        assert refused("a: 1\n---\nb: 1\n") == (
            "c.yaml:2: a config must be one YAML document, a second starts here"
        )

    def test_bad_syntax_has_a_line(self):
        assert refused("a: 1\nb: [1,\n").startswith("c.yaml:3: not valid YAML: ")

    def test_a_control_character_has_a_line(self):
        assert "c.yaml:2: not valid YAML: the character '\\x01' is not allowed" in refused(
            "a: 1\nb: \x01\n"
        )

    def test_deep_nesting(self):
        assert "nested too deeply" in refused("a: " + "[" * 5000)

    def test_not_a_mapping(self):
        assert refused("- a\n") == (
            "c.yaml: a config must be a mapping of keys to values, got a list"
        )


class TestJson:
    def test_values_and_lines(self):
        document = parse_json('{"a": 1e-3,\n\t"b": [true, "\\u00e4"]}', "c.json")
        assert document.values == {"a": 0.001, "b": [True, "ä"]}
        assert document.lines["b", 1] == 2

    @pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
    def test_nan_is_refused_with_its_line(self, word):
        assert refused(f'{{"a":\n {word}}}', parse_json, "c.json") == (
            f"c.json:2: a: {word} is not JSON; give a number, or use YAML's .nan"
        )

    def test_a_duplicate_key(self):
        text = refused('{"a": 1,\n "a": 2}', parse_json, "c.json")
        assert text.startswith("c.json:2: a: the key stands twice, first on line 1")

    def test_a_duplicate_key_where_yaml_cannot_follow(self):
        long = "k" * 1100
        text = refused(f'{{"{long}": 1, "{long}": 2}}', parse_json, "c.json")
        assert text.endswith("stands twice in one mapping; remove one of them")

    def test_nan_where_yaml_cannot_follow(self):
        text = refused(f'{{"{"k" * 1100}": NaN}}', parse_json, "c.json")
        assert text == "c.json: NaN is not JSON; give a number"

    def test_bad_syntax_has_a_line(self):
        assert refused('{"a": 1,\n}', parse_json, "c.json").startswith("c.json:2: not valid JSON:")

    def test_yaml_words_are_only_text_in_json(self):
        assert parse_json('{"a": "no", "b": "012", "c": "NaN"}', "c.json").values["a"] == "no"

    def test_deep_nesting(self):
        text = "[" * 100_000 + "]" * 100_000
        assert "nested too deeply" in refused(text, parse_json, "c.json")

    @settings(max_examples=60, deadline=None)
    @given(
        st.dictionaries(
            st.text(max_size=8),
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers(-(2**60), 2**60)
                | st.floats(allow_nan=False, allow_infinity=False)
                | st.text(max_size=8),
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(st.text(max_size=4), inner, max_size=3)
                ),
                max_leaves=8,
            ),
            max_size=4,
        )
    )
    def test_all_that_json_writes_is_read_back(self, values):
        import json

        assert parse_json(json.dumps(values), "c.json").values == values


class TestFiles:
    def test_by_suffix(self, tmp_path):
        for name, text in (("a.yml", "seed: 3"), ("a.yaml", "seed: 3"), ("a.JSON", '{"seed": 3}')):
            path = tmp_path / name
            path.write_text(text)
            assert read_config(path).values == {"seed": 3}

    def test_another_suffix(self, tmp_path):
        with pytest.raises(ConfigError, match=r"must end in \.yaml, \.yml or \.json, got '\.toml'"):
            read_config(tmp_path / "a.toml")

    def test_any_suffix_when_asked_for(self, tmp_path):
        path = tmp_path / "config"
        path.write_text('{"seed": 3}')
        assert read_yaml(path).values == read_json(path).values == {"seed": 3}

    def test_a_missing_file_is_also_file_not_found(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no such config file") as caught:
            read_config(tmp_path / "no.yaml")
        assert isinstance(caught.value, MissingConfigError)

    def test_a_folder(self, tmp_path):
        (tmp_path / "a.yaml").mkdir()
        with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
            read_config(tmp_path / "a.yaml")

    def test_a_byte_order_mark_and_a_name_that_is_not_ascii(self, tmp_path):
        path = tmp_path / "größe.yaml"
        path.write_bytes("seed: 3\nx-note: ü\n".encode("utf-8-sig"))
        assert read_config(path).values == {"seed": 3, "x-note": "ü"}

    def test_not_utf8(self, tmp_path):
        path = tmp_path / "a.yaml"
        path.write_bytes(b"a: \xff\n")
        with pytest.raises(ConfigError, match="must be UTF-8 text, byte 3 is not"):
            read_config(path)
