"""Where a Spark master is configured, so that work goes there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tailrace.spark.spark_conf import configured_master, is_connect

CONFIGURED = [
    ({}, ""),
    ({"SPARK_REMOTE": "sc://there"}, "SPARK_REMOTE is sc://there"),
    ({"MASTER": "local[2]"}, "MASTER is local[2]"),
    ({"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, "PYSPARK_SUBMIT_ARGS names a master"),
    ({"PYSPARK_SUBMIT_ARGS": "--remote=sc://there pyspark-shell"}, "PYSPARK_SUBMIT_ARGS names a master"),
    ({"PYSPARK_SUBMIT_ARGS": "--conf spark.master=yarn pyspark-shell"}, "PYSPARK_SUBMIT_ARGS names a master"),
    ({"PYSPARK_SUBMIT_ARGS": "--conf 'spark.app.name=the --master' pyspark-shell"}, ""),
    ({"PYSPARK_SUBMIT_ARGS": "--properties-file CONF/spark-defaults.conf pyspark-shell"}, "PYSPARK_SUBMIT_ARGS names a master"),
    ({"SPARK_CONF_DIR": "CONF"}, "CONF/spark-defaults.conf names a master"),
    ({"SPARK_HOME": "CONF/.."}, "CONF/../conf/spark-defaults.conf names a master"),
    ({"SPARK_CONF_DIR": "nowhere"}, ""),
    ({"SPARK_CONF_DIR": "CONF/other"}, ""),
]


@pytest.mark.parametrize(("environment", "said"), CONFIGURED)
def test_where_a_master_is_configured(
    environment: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pyspark.sql", raising=False)  # other tests may have a session
    conf = tmp_path / "conf"
    (conf / "other").mkdir(parents=True)
    (conf / "spark-defaults.conf").write_text("# ours\nspark.app.name x\n  spark.master = spark://there:7077\n")
    (conf / "other/spark-defaults.conf").write_text("#spark.master yarn\nspark.masters yarn\n")
    placed = {name: value.replace("CONF", str(conf)) for name, value in environment.items()}
    assert configured_master(placed).replace(str(conf), "CONF") == said
    assert is_connect(placed) == ("sc://" in str(environment))
