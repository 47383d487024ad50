from pathlib import Path

import pytest

from omniloader.errors import ConfigError
from omniloader.utils.atomic import PARTIAL, current_umask, replacing, replacing_output


def test_a_file_takes_its_name_when_it_is_whole_with_the_rights_of_a_new_file(
    tmp_path: Path,
) -> None:
    target = tmp_path / "größe.h5"
    with replacing(target) as temporary:
        temporary.write_text("half")
        assert temporary.parent == tmp_path
        assert temporary.suffix == PARTIAL
        assert not target.exists()
    assert target.read_text() == "half"
    assert target.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    assert [file.name for file in tmp_path.iterdir()] == ["größe.h5"]


def test_an_interrupt_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    target.write_text("old")

    def interrupted() -> None:
        with replacing(target) as temporary:
            temporary.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_an_output_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"-o .*: must be a file, is a folder; give a file name"),
        replacing_output(tmp_path, "-o"),
    ):
        pytest.fail("the work began")
    missing = tmp_path / "no" / "a.json"
    with (
        pytest.raises(
            ConfigError, match=r"-o .*: cannot be written: No such file or directory; cho"
        ),
        replacing_output(missing, "-o"),
    ):
        pytest.fail("the work began")


def test_an_error_of_the_work_itself_is_not_taken_for_one_of_the_file(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="disk of the source gone"),
        replacing_output(tmp_path / "a", "-o"),
    ):
        raise OSError("disk of the source gone")
