import io
import json
import os
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest
import torch
import yaml
from corpora import SENSORS, SPEECH, write_config, write_corpora

import omniloader
from omniloader import DatasetSchema, DictTensorDataset, OmniConfig, OmniLoader, TensorSpec
from omniloader.cli import bench, console, main, output, plan, statistics
from omniloader.cli.bench import Speed, recommend
from omniloader.cli.stages import stage_times
from omniloader.errors import ConfigError
from omniloader.introspection import Forecast
from omniloader.templates import config_schema_path, config_template_path
from omniloader.transforms.stats import load_stats


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    write_corpora(folder)
    return folder


@pytest.fixture
def config(folder):
    return str(write_config(folder))


@pytest.fixture
def run(capsys):
    def call(*argv):
        status = main([str(part) for part in argv])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def run_json(run):
    def call(*argv):
        status, out, err = run(*argv, "--json")
        assert err == ""
        return status, json.loads(out)

    return call


class TestDescribe:
    def test_the_table(self, run, config):
        status, out, err = run("describe", config)
        assert (status, err) == (0, "")
        assert "Valid share by source and key" in out
        assert "no findings" in out
        assert "\x1b" not in out

    def test_json(self, run_json, config):
        status, report = run_json("describe", config, "--all")
        assert status == 0
        assert report["names"] == ["speech", "sensors"]
        assert report["sizes"] == [20, 8]
        assert report["class_distributions"]["speech"]["emotion"] == dict.fromkeys("0123", 5)
        assert report["sources"][0]["read"] == 20

    def test_workers_change_nothing(self, run_json, config):
        assert run_json("describe", config, "--all", "--workers", 2) == run_json(
            "describe", config, "--all"
        )

    def test_the_evaluation_data(self, run_json, config):
        assert run_json("describe", config, "--eval")[1]["sizes"] == [5, 3]


class TestValidate:
    def test_good_data(self, run, config):
        assert run("validate", config)[0] == 0

    def test_findings_give_status_1(self, run, folder, tmp_path):
        entry = {**SPEECH, "path": str(folder / SPEECH["path"])}
        wrong = {"features": [{"name": "audio", "feature_dim": 9, "time_dim": 12}, {"name": "x"}]}
        path = write_config(tmp_path, datasets=[{**entry, "schema": wrong}])
        status, out, err = run("validate", path)
        assert (status, err) == (1, "")
        assert "error: source 'speech', 'audio': sample 0 must be a sequence of shape (t, 9)" in out
        assert "error: source 'speech', 'x': is declared, but none of the 4 samples read" in out
        assert "warning: source 'speech': holds 'emotion', which its schema does not declare" in out

    def test_warnings_are_findings_when_strict(self, run, folder, tmp_path):
        schema = {"features": SPEECH["schema"]["features"]}
        entry = {**SPEECH, "path": str(folder / SPEECH["path"]), "schema": schema}
        path = write_config(tmp_path, datasets=[entry])
        assert run("validate", path)[0] == 0
        assert run("validate", path, "--strict")[0] == 1

    def test_the_rest_of_the_config_is_built_too(self, run, folder):
        path = write_config(folder, transforms=[{"name": "gaussian_noise", "keys": ["video"]}])
        status, _, err = run("validate", path)
        assert status == 2
        assert "'video'" in err


class TestPlan:
    def test_counts_labels_and_padding(self, run_json, folder):
        path = write_config(folder, strategy="round_robin")
        status, (first, second) = run_json("plan", path, "--epochs", 2)
        assert (status, first["epoch"], second["epoch"]) == (0, 0, 1)
        assert [source["count"] for source in first["sources"]] == [20, 20]
        assert first["sources"][1]["passes"] == 2.5
        assert {target["key"]: target["labels"] for target in first["targets"]} == {
            "emotion": 20,
            "effort": 20,
        }
        assert first["padding"]["motion"] == 0
        assert 0.2 < first["padding"]["audio"] < 0.5

    def test_dynamic_padding_and_buckets_waste_less(self, run_json, folder):
        options = {"pad_features": False, "collate": "dynamic"}
        static = run_json("plan", write_config(folder))[1][0]["padding"]["audio"]
        dynamic = run_json("plan", write_config(folder, **options))[1][0]["padding"]["audio"]
        options["bucketing"] = {"key": "audio"}
        bucketed = run_json("plan", write_config(folder, **options))[1][0]["padding"]["audio"]
        assert bucketed < dynamic < static

    def test_a_starved_target_and_a_source_seen_too_often_are_warned_of(self, run, folder):
        path = write_config(
            folder,
            strategy="fixed",
            strategy_kwargs={"weights": [1, 30], "epoch_size": 280},
        )
        status, out, _ = run("plan", path)
        assert status == 0
        assert "warning: target 'emotion' has no label in" in out
        assert "warning: source 'sensors' is seen 33.9 times an epoch: it will be" in out
        assert "Padding, of samples that have the sequence" in out

    def test_no_sample_is_read(self, run, tmp_path):
        (tmp_path / "data").mkdir()
        with h5py.File(tmp_path / "data/speech.h5", "w") as file:
            for number in range(4):
                group = file.create_group(f"train/s{number}")
                # Its data lies in a file that is gone: any attempt to read it would fail.
                group.create_dataset("audio", (5, 8), "f4", external=[("gone.bin", 0, 160)])
                group["emotion"] = np.int64(0)
        status, out, err = run("plan", write_config(tmp_path, datasets=[SPEECH]))
        assert (status, err) == (0, "")
        assert "4 samples in 1 batches" in out


class TestPreview:
    def test_layout_mix_and_speed(self, run_json, config):
        status, result = run_json("preview", config)
        assert (status, result["samples"], result["batches"]) == (0, 28, 7)
        rows = {row["key"]: row for row in result["layout"]}
        assert rows["audio"]["shape"] == "(B, 12, 8)"
        assert rows["emotion"] == {
            "key": "emotion",
            "shape": "(B,)",
            "dtype": "int64",
            "valid": pytest.approx(20 / 28),
        }
        assert rows["dataset"]["shape"] == "B values"
        assert "audio_mask" not in rows
        assert [row["drawn"] for row in result["mix"]] == [20, 8]
        assert [row["planned"] for row in result["mix"]] == [20, 8]
        assert result["samples_per_s"] > 0
        assert 0 < result["waiting_share"] <= 1

    def test_the_tables(self, run, config):
        status, out, err = run("preview", config, "--batches", 2, "--epoch", 1)
        assert (status, err) == (0, "")
        assert "Epoch 1: 8 samples in 2 batches" in out
        assert "of the time waited for data" in out

    def test_axes_that_vary_are_shown_as_a_range(self, run_json, folder):
        path = write_config(folder, pad_features=False, collate="dynamic")
        rows = {row["key"]: row for row in run_json("preview", path)[1]["layout"]}
        assert "–" in rows["audio"]["shape"]

    def test_a_model_that_takes_time_is_waited_for_less(self, run_json, config):
        result = run_json("preview", config, "--step-ms", 20, "--workers", 0)[1]
        assert result["waiting_share"] < 0.9

    def test_evaluation(self, run_json, config):
        result = run_json("preview", config, "--eval")[1]
        assert [row["planned"] for row in result["mix"]] == [5, 3]

    def test_a_target_without_labels_is_warned_of(self, run, folder):
        path = write_config(folder, strategy="fixed", strategy_kwargs={"weights": [1, 0]})
        assert "warning: target 'effort' had no real value" in run("preview", path)[1]

    def test_a_bad_sample_gives_status_1(self, run, folder, tmp_path):
        schema = {"features": [{"name": "audio", "feature_dim": 9, "time_dim": 12}]}
        entry = {**SPEECH, "path": str(folder / SPEECH["path"]), "schema": schema}
        status, _, err = run("preview", write_config(tmp_path, datasets=[entry]))
        assert status == 1
        assert err.startswith("error: source 'speech'")
        assert "Traceback" not in err


class TestStatistics:
    def test_a_file_that_load_stats_reads(self, run, config, tmp_path):
        status, out, err = run("compute-stats", config, "-o", tmp_path / "s.json", "--workers", 1)
        assert status == 0
        assert err == f"written to {tmp_path / 's.json'}\n"
        assert "Statistics over real positions" in out
        stats = load_stats(tmp_path / "s.json")
        assert list(stats) == ["audio", "motion"]
        assert stats.fingerprint is not None
        assert [path.name for path in tmp_path.iterdir()] == ["s.json"]

    def test_keys_and_datasets(self, run_json, config):
        status, result = run_json(
            "compute-stats", config, "--keys", "motion,effort", "--per-dataset"
        )
        assert status == 0
        assert result["speech"] == {}
        assert list(result["sensors"]) == ["motion", "effort"]
        assert len(result["sensors"]["motion"]["mean"]) == 3

    def test_per_dataset_table(self, run, config):
        assert "speech" in run("compute-stats", config, "--per-dataset")[1]

    def test_an_unknown_key(self, run, config):
        status, _, err = run("compute-stats", config, "--keys", "audo")
        assert status == 2
        assert "--keys: unknown key 'audo', did you mean 'audio'?" in err

    def test_no_float_feature(self, run, folder, tmp_path):
        entry = {**SPEECH, "path": str(folder / SPEECH["path"])}
        entry["schema"] = {"targets": SPEECH["schema"]["targets"]}
        status, _, err = run("compute-stats", write_config(tmp_path, datasets=[entry]))
        assert status == 2
        assert "no feature is of a float dtype; name the values with --keys" in err

    def test_transforms_do_not_change_the_figures(self, run_json, folder, config):
        plain = run_json("compute-stats", config)[1]
        path = write_config(folder, transforms=[{"name": "instance_normalize"}])
        assert run_json("compute-stats", path)[1] == plain

    def test_class_weights(self, run_json, run, config, tmp_path):
        argv = ["class-weights-for-loss", config, "--target", "emotion", "--num-classes", 5]
        status, result = run_json(*argv, "--scheme", "effective", "--beta", 0.9)
        assert status == 0
        assert result["counts"] == [5, 5, 5, 5, 0]
        assert result["weights"] == [1.25, 1.25, 1.25, 1.25, 0]
        assert result["beta"] == 0.9
        _, out, _ = run(*argv, "-o", tmp_path / "w.json")
        assert "Classes of 'emotion'" in out
        written = json.loads((tmp_path / "w.json").read_text())
        assert (written["scheme"], written["beta"]) == ("inverse", None)

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            (
                ["--target", "emotoin"],
                "--target: unknown target 'emotoin', did you mean 'emotion'?",
            ),
            (["--target", "emotion", "--scheme", "x"], "scheme must be one of inverse, effective"),
            (["--target", "emotion", "--beta", "1"], "beta must be at least 0 and below 1"),
            (["--target", "effort"], "'effort'"),
        ],
    )
    def test_class_weights_refused(self, run, config, options, text):
        status, _, err = run("class-weights-for-loss", config, *options)
        assert status == 2
        assert text in err


class TestOutput:
    @pytest.mark.parametrize(
        "command", [["compute-stats"], ["class-weights-for-loss", "--target", "emotion"]]
    )
    def test_an_unwritable_output_fails_before_the_pass(
        self, run, config, tmp_path, monkeypatch, command
    ):
        def never(*args, **kwargs):
            raise AssertionError("the pass began")

        for name in ("compute_stats", "class_histogram"):
            monkeypatch.setattr(statistics, name, never)
        status, _, err = run(command[0], config, *command[1:], "-o", tmp_path / "no/s.json")
        assert status == 2
        assert "cannot be written: No such file or directory; choose a folder that is there" in err

    def test_a_folder_is_no_output(self, run, config, tmp_path):
        status, _, err = run("compute-stats", config, "-o", tmp_path)
        assert status == 2
        assert "must be a file, is a folder" in err

    @pytest.mark.parametrize(
        "command", [["compute-stats"], ["class-weights-for-loss", "--target", "emotion"]]
    )
    def test_ctrl_c_leaves_nothing_behind(self, run, config, tmp_path, monkeypatch, command):
        def interrupted(*args, **kwargs):
            raise KeyboardInterrupt

        for name in ("compute_stats", "class_histogram"):
            monkeypatch.setattr(statistics, name, interrupted)
        (tmp_path / "s.json").write_text("old")
        status, _, err = run(command[0], config, *command[1:], "-o", tmp_path / "s.json")
        assert (status, err) == (130, "error: interrupted\n")
        assert [path.name for path in tmp_path.iterdir()] == ["s.json"]
        assert (tmp_path / "s.json").read_text() == "old"

    @staticmethod
    def fail_half_way(path):
        with output.replacing(path) as temporary:
            temporary.write_text("half")
            raise ConfigError("stop")

    def test_an_error_keeps_what_was_there(self, tmp_path):
        path = tmp_path / "a.json"
        path.write_text("old")
        with pytest.raises(ConfigError, match="stop"):
            self.fail_half_way(path)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


class TestBench:
    def test_speeds_stages_and_advice(self, run_json, folder):
        path = write_config(folder, transforms=[{"name": "gaussian_noise"}])
        argv = ["bench", path, "--workers", "0,1", "--batches", 8, "--prefetch", "2,3"]
        status, result = run_json(*argv)
        assert status == 0
        tried = [(speed["workers"], speed["prefetch"]) for speed in result["speeds"]]
        assert tried == [(0, None), (1, 2), (1, 3)]
        for speed in result["speeds"]:
            assert speed["samples_per_s"] > speed["batches_per_s"] > 0
            assert speed["ceiling"] > 0
        assert result["speeds"][0]["worker_megabytes"] is None
        stages = {(stage["source"], stage["name"]) for stage in result["stages"]}
        assert ("sensors", "+ transform") in stages
        assert ("(batch)", "collate") in stages
        assert result["recommendation"].startswith("num_workers: ")

    def test_the_tables(self, run, config):
        argv = ["bench", config, "--workers", "0", "--batches", 2, "--step-ms", 1]
        status, out, err = run(*argv)
        assert (status, err) == (0, "")
        assert "1.00x" in out
        assert "Where the time goes" in out
        assert "Recommended: num_workers: 0" in out

    @pytest.mark.parametrize(
        ("option", "value"), [("--workers", "a"), ("--workers", "-1,2"), ("--prefetch", "0")]
    )
    def test_numbers_that_are_none(self, run, config, option, value):
        status, _, err = run("bench", config, option, value)
        assert status == 2
        assert f"{option} must be whole numbers of at least" in err

    def test_the_peak_of_processes_that_are_gone_is_unknown(self):
        assert bench._peak_megabytes([2**30]) is None

    @pytest.mark.parametrize(
        ("rates", "advice"),
        [
            (
                {0: 10, 2: 10.5, 4: 10.7},
                "num_workers: 0  (10.0 batches/s; 4 workers bring 7% more)",
            ),
            (
                {0: 10, 2: 20, 4: 30, 8: 31},
                "num_workers: 4  (30.0 batches/s; 8 workers bring 3% more)",
            ),
            ({0: 10, 2: 20}, "num_workers: 2  (20.0 batches/s)"),
            ({0: 10, 2: 5}, "num_workers: 0  (10.0 batches/s; workers do not make it faster"),
        ],
    )
    def test_the_fewest_workers_that_are_near_the_fastest(self, rates, advice):
        speeds = [
            Speed(
                workers=workers,
                prefetch=None,
                samples_per_s=rate,
                batches_per_s=rate,
                megabytes_per_s=1,
                first_batch_s=1,
                waiting_share=1,
                ceiling=1,
                worker_megabytes=None,
            )
            for workers, rate in rates.items()
        ]
        assert recommend(speeds).startswith(advice)

    def test_a_loader_without_batches(self):
        class Empty(list):
            def set_epoch(self, epoch):
                self.epoch = epoch

        with pytest.raises(ConfigError, match="bench: the loader gives no batch"):
            next(bench._endless(Empty()))

    def test_a_source_without_samples_has_no_stages(self, config):
        settings = OmniConfig.from_file(config)
        schema = DatasetSchema([TensorSpec("y")])
        empty = OmniLoader([DictTensorDataset({"y": torch.zeros(0)})], [schema])
        assert stage_times(empty, settings) == []


class TestTerminal:
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def test_progress_is_shown_on_a_terminal_only(self, monkeypatch):
        monkeypatch.setattr(sys, "stderr", self.Terminal())
        items = console.track([1, 2], total=2, description="reading")
        assert list(items) == [1, 2]
        assert "reading" in sys.stderr.getvalue()
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        assert list(console.track([1, 2], total=2, description="reading")) == [1, 2]
        assert sys.stderr.getvalue() == ""

    def test_a_plan_that_was_looked_at_in_part(self, capsys):
        found = Forecast(
            epoch=0,
            samples=9,
            batches=9,
            examined=3,
            sources=(),
            targets=(),
            padding={},
            warnings=(),
        )
        console.show(*plan._tables(found))
        out = capsys.readouterr().out
        assert "labels and padding were counted over 3 batches" in out
        assert "Padding" not in out


class TestShipped:
    def test_template_and_schema(self, run, tmp_path):
        assert run("template") == (0, config_template_path().read_text(encoding="utf-8"), "")
        assert run("schema", "-o", tmp_path / "s.json")[0] == 0
        assert (tmp_path / "s.json").read_text() == config_schema_path().read_text()


class TestMisuse:
    def test_a_missing_config(self, run, tmp_path):
        status, out, err = run("describe", tmp_path / "no.yaml")
        assert (status, out) == (2, "")
        assert "there is no such config file" in err

    def test_a_wrong_config(self, run, tmp_path):
        path = tmp_path / "c.yaml"
        path.write_text("seeed: 1\n")
        status, _, err = run("plan", path)
        assert status == 2
        assert err == f"error: {path}:1: seeed: unknown key, did you mean 'seed'?\n"

    def test_no_datasets(self, run):
        status, _, err = run("describe", config_template_path())
        assert status == 2
        assert "datasets: is empty" in err

    def test_missing_data(self, run, tmp_path):
        status, _, err = run("validate", write_config(tmp_path))
        assert status == 2
        assert err.startswith("error: datasets[0]: ")
        assert "speech.h5' does not exist" in err

    def test_evaluation_data_that_does_not_open(self, run, folder):
        wrong = {**SPEECH, "eval": {"subset": "nosuch"}}
        status, out, err = run("validate", write_config(folder, datasets=[wrong, SENSORS]))
        assert (status, out) == (2, "")
        assert "has no group 'nosuch'" in err

    def test_findings_stand_above_an_error_of_the_config(self, run, folder):
        options = {"strategy": "fixed", "strategy_kwargs": {"weights": [1]}, "metadata": ["nosuch"]}
        status, out, err = run("validate", write_config(folder, **options))
        assert status == 2
        assert "'nosuch': is asked for as metadata" in out
        assert "weights must hold one entry" in err

    def test_a_bad_sample_in_a_worker_has_no_traceback(self, run, folder):
        wide = {"features": [{"name": "audio", "feature_dim": 99, "time_dim": 4}]}
        path = write_config(folder, datasets=[{**SPEECH, "schema": wide}])
        status, _, err = run("preview", path, "--workers", "1")
        assert status == 1
        assert err.startswith("error: source 'speech', sample ")
        assert err.count("\n") == 1

    def test_clashing_schemas(self, run, folder):
        other = {**SENSORS, "schema": {"features": [{"name": "audio", "feature_dim": 2}]}}
        status, _, err = run("plan", write_config(folder, datasets=[SPEECH, other]))
        assert status == 2
        assert "'audio': sources 'speech' and 'sensors' disagree on" in err

    @pytest.mark.parametrize(
        "argv", [["nosuch"], ["describe"], ["describe", "c", "--samples", "0"], ["describe", "--x"]]
    )
    def test_the_command_line_itself(self, run, argv):
        status, out, err = run(*argv)
        assert (status, out) == (2, "")
        assert "Usage:" in err

    def test_version(self, run):
        status, out, _ = run("--version")
        assert (status, out) == (0, f"omniloader {omniloader.__version__}\n")

    def test_help(self, run):
        status, out, _ = run("--help")
        assert status == 0
        for command in ("describe", "validate", "plan", "preview", "bench", "compute-stats"):
            assert command in out


@pytest.mark.parametrize("workers", ["0", "1"])
def test_ctrl_c_from_the_keyboard(config, tmp_path, workers):
    """A real interrupt, sent to the whole group as a terminal does, in the middle of the work."""
    code = (
        "import sys; from omniloader.cli import bench, run; timed = bench._timed\n"
        "def told(*args):\n    print('ready', flush=True)\n    return timed(*args)\n"
        "bench._timed = told; run()"
    )
    argv = [sys.executable, "-c", code, "bench", config, "--workers", workers]
    child = subprocess.Popen(
        [*argv, "--batches", "100000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout.readline() == "ready\n"
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (130, "", "error: interrupted\n")


def test_the_console_script_and_a_terminal_of_another_width(config):
    code = "from omniloader.cli import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", code, "validate", config],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "no findings" in done.stdout


def test_importing_the_package_loads_no_terminal_library():
    code = (
        "import sys, omniloader; heavy = ('typer', 'rich', 'lightning', 'matplotlib'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_configs_written_for_the_tests_are_plain_yaml(config, folder):
    assert yaml.safe_load((folder / "config.yaml").read_text())["datasets"] == [SPEECH, SENSORS]
