"""Command lines to specs: public deployments of many authors, their commands' facts, a file each in convert/; and the readers alone."""

from __future__ import annotations

import os
import typing as t

import pytest
import yaml
from builders import ROOT, UNIT, catalogue, codes, judge
from hypothesis import configuration, given, settings
from hypothesis import strategies as st

from ansible_collections.inferops.pd.plugins.action import convert as action
from ansible_collections.inferops.pd.plugins.module_utils._core.base.errors import PdError
from ansible_collections.inferops.pd.plugins.module_utils._core.convert import container, found, roles, spec
from ansible_collections.inferops.pd.plugins.module_utils._core.convert.launch import secret_name, secret_value
from ansible_collections.inferops.pd.plugins.module_utils._core.convert.script import statements
from ansible_collections.inferops.pd.plugins.plugin_utils import _pasted

configuration.set_hypothesis_home_dir(os.path.join(ROOT, ".build", "hypothesis"))
FOLDER = os.path.join(UNIT, "convert")
TEXTS = ("all", *roles.ROLES)
NIXL = """--kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_%s"}'"""
PREFILL = f"vllm serve /models/m {NIXL % 'producer'}"
DECODE = f"vllm serve /models/m {NIXL % 'consumer'}"


def convert(mode: str | None = None, **texts: str) -> spec.Converted:
    read = {what: _pasted.launches_of(text, what) for what, text in texts.items()}
    notes = [note for _launches, more in read.values() for note in more]
    known = catalogue()
    return spec.convert(roles.assign({k: v[0] for k, v in read.items()}, notes), known.modes, known.engine, mode)


def noted(made: spec.Converted, outcome: str) -> list[str]:
    return [f"{n.role or 'group'} {n.line}: {n.what}" for n in made.notes if n.outcome == outcome and n.what != "hosts"]


def whole(made: spec.Converted) -> str:
    """Everything that comes out: the file, the table."""
    result = {"changed": True, "valid": True, "findings": [], "yaml": action.written("g", made.spec, made.notes)}
    return action.told("g", made.notes, result, "", False) + str([note.to_plain() for note in made.notes])


# -- what people have posted -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(os.listdir(FOLDER)))
def test_a_posted_deployment_becomes_a_spec(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as handle:
        case = yaml.safe_load(handle)
    texts = {what: case[what] for what in TEXTS if what in case}
    made = convert(**texts)
    assert made.spec == case["spec"]
    assert noted(made, "decide") == case.get("decide", [])
    assert noted(made, "dropped") == case.get("left_out", [])
    # The product's own verdict, on all of it.
    assert sorted(set(codes(judge(action._probe(made.spec)).findings))) == case.get("codes", [])
    for secret in case.get("never", ()):
        assert any(secret in text for text in texts.values())
        assert secret not in whole(made)
    # The file is the spec, and reads back as it.
    written = yaml.safe_load(action.written("a-group", made.spec, made.notes))
    assert written == {"pd_groups_a_group": {"a-group": made.spec}}


def test_there_are_deployments_of_many_authors():
    assert len(os.listdir(FOLDER)) >= 20


# -- every flag is told of ---------------------------------------------------------------------------------------------------------------


def test_every_flag_and_variable_of_a_line_has_a_note():
    line = (
        "A=1 B_KEY=2 vllm serve /models/m --port 8000 --max-model-len 4096 --enable-lora --nnodes 2 --seed=$SEED "
        + NIXL % "producer"
    )
    made = convert(prefill=line, decode=DECODE)
    told = {n.what: n.outcome for n in made.notes if n.role == "prefill"}
    assert told == {
        "hosts": "decide",
        "A": "taken",
        "B_KEY": "taken",
        "the model": "taken",
        "--port": "recipe",
        "--max-model-len": "taken",
        "--enable-lora": "decide",
        "--nnodes": "decide",
        "--seed": "decide",
        "--kv-transfer-config": "recipe",
    }
    assert made.spec["roles"]["prefill"]["secrets"] == {"B_KEY": "{{ vault_b_key }}"}


@pytest.mark.parametrize(
    ("args", "entries"),
    [
        ("--enforce-eager", ["--enforce-eager"]),
        ("--seed 1", ["--seed=1"]),
        ("--chat-template 'b c'", ["--chat-template='b c'"]),
        ("--cudagraph-capture-sizes 1 2", ["--cudagraph-capture-sizes 1 2"]),
        ("-tp 4", ["-tp 4"]),
        ("--chat-template ''", ["--chat-template=''"]),
        ("""--additional-config '{"b": "c d"}'""", ['--additional-config={"b": "c d"}']),
        ('--chat-template "it\'s"', ["""--chat-template='it'"'"'s'"""]),
        ("--seed -1", ["--seed=-1"]),
    ],
)
def test_an_entry_reads_back_as_what_was_written(args, entries):
    made = convert(prefill=f"{PREFILL} {args}", decode=f"{DECODE} {args}")
    assert made.spec["engine"]["args"] == entries
    argv = judge(made.spec).template.roles["prefill"].argv
    (statement,) = statements(f"x {args}")
    text = " ".join(argv)
    assert all(word in text for word in statement.words[1:])


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve /models/x --port 1",
        "vllm serve --port 1 /models/x",
        "vllm serve --port=1 /models/x --seed 2",
        "vllm serve --trust-remote-code /models/x",
        "vllm serve --model /models/x",
        "python -m vllm.entrypoints.openai.api_server --model=/models/x --trust-remote-code",
    ],
)
def test_the_model_is_found_wherever_it_stands(line):
    made = convert(prefill=f"{line} {NIXL % 'producer'}", decode=f"{line} {NIXL % 'consumer'}")
    assert made.spec["model"] == "/models/x"
    assert not any("/models/x" in entry for entry in made.spec.get("engine", {}).get("args", ()))


def test_variables_of_a_container_are_filled_in():
    text = """
a: {name: prefill, image: i, command: [vllm, serve], args: [$(MODEL), --seed, "$SEED", --block-size=$other],
    env: [{name: MODEL, value: /models/x}, {name: SEED, value: "7"}]}
"""
    made = convert(prefill=text, decode=DECODE.replace("/models/m", "/models/x"))
    assert made.spec["model"] == "/models/x"
    assert made.spec["roles"]["prefill"]["extra_args"] == ["--seed=7"]
    assert "prefill 2: --block-size" in noted(made, "decide")


def test_what_both_have_stands_under_engine_and_the_rest_at_the_roles():
    made = convert(
        prefill=f"A=1 B=1 {PREFILL} --seed=1 --max-num-seqs=1", decode=f"A=1 B=2 {DECODE} --seed=1 --max-num-seqs=2"
    )
    assert made.spec["engine"] == {"args": ["--seed=1"], "env": {"A": "1"}}
    assert made.spec["roles"]["prefill"] == {
        "hosts": "prefill_nodes",
        "extra_args": ["--max-num-seqs=1"],
        "extra_env": {"B": "1"},
    }
    assert made.spec["roles"]["decode"] == {
        "hosts": "decode_nodes",
        "extra_args": ["--max-num-seqs=2"],
        "extra_env": {"B": "2"},
    }


def test_a_router_says_how_many_there_are():
    router = "vllm-router --prefill http://a:1 --prefill http://b:1 --decode http://c:1 --port 9000 --policy round_robin --api-key x"
    made = convert(prefill=PREFILL, decode=DECODE, router=router)
    assert made.spec["roles"]["prefill"]["replicas"] == 2
    assert "replicas" not in made.spec["roles"]["decode"]
    assert made.spec["roles"]["router"] == {
        "hosts": "router_nodes",
        "port": 9000,
        "secrets": {"OPENAI_API_KEY": "{{ vault_openai_api_key }}"},
        "args": ["--policy=round_robin"],
    }


def test_a_policy_of_another_membership_is_to_decide():
    made = convert(prefill=PREFILL, decode=DECODE, router="vllm-router --prefill-policy cache_aware")
    assert "router 1: --prefill-policy" in noted(made, "decide")
    assert "args" not in made.spec["roles"]["router"]


@pytest.mark.parametrize(
    "text", ["", "echo hello", "vllm bench serve", "services: {}", "[Service]\nExecStart=/bin/true", "{", "a: [", "'"]
)
def test_what_starts_nothing_is_one_sentence(text):
    with pytest.raises(PdError, match="There is no command of prefill"):
        convert(prefill=text, decode=DECODE)


def test_two_engines_are_one_sentence():
    with pytest.raises(PdError, match="a mode has one engine"):
        convert(
            prefill=PREFILL, decode="python -m sglang.launch_server --model-path /models/m --disaggregation-mode decode"
        )


def test_a_mode_that_is_asked_for_is_taken():
    assert convert("vllm-mooncake", prefill=PREFILL, decode=DECODE).spec["mode"] == "vllm-mooncake"
    with pytest.raises(PdError, match="There is no mode 'nope'"):
        convert("nope", prefill=PREFILL, decode=DECODE)


def test_a_text_of_the_other_role_is_told():
    with pytest.raises(PdError, match="There is no command of prefill"):
        convert(prefill=DECODE, decode=DECODE)


@pytest.mark.parametrize(
    ("flag", "outcome", "entries", "says"),
    [
        ("--disable-log-requests", "dropped", [], "is no flag of vLLM 0.32.0; --no-enable-log-requests is nearest"),
        ("--max-num-partial-prefills 2", "dropped", [], "is a flag of older versions: vLLM 0.32.0 does not have it"),
        ("--mem-fraction-static 0.8", "dropped", [], "--gpu-memory-utilization is nearest"),
        ("--zzz 1", "dropped", [], "it is no flag of vLLM 0.32.0"),
        ("--enable-log-outputs $X", "decide", ["--enable-log-outputs"], "$X behind it"),
        ("--enable-log", "decide", [], "may be any of --enable-log-deltas"),
        ("--trust-remote 1", "decide", ["--trust-remote"], "takes no value"),
        ("-dp 2", "taken", ["-dp 2"], "args: -dp 2"),
        ("--log-config-file /etc/log.json", "taken", ["--log-config-file=/etc/log.json"], "args"),
    ],
)
def test_a_flag_is_what_the_engines_table_says(flag, outcome, entries, says):
    made = convert(prefill=f"{PREFILL} {flag}", decode=f"{DECODE} {flag}")
    assert made.spec.get("engine", {}).get("args", []) == entries
    assert [n.outcome for n in made.notes if n.role == "prefill" and says in n.why] == [outcome]
    assert "unknown-flag" not in codes(judge(action._probe(made.spec)).findings)


# -- keys --------------------------------------------------------------------------------------------------------------------------------

BOTH = {"VLLM_API_KEY": "{{ vault_vllm_api_key }}"}
SHOWN = {"OPENAI_API_KEY": "{{ vault_vllm_api_key }}"}
SGLANG = "python -m sglang.launch_server --model-path /models/m --disaggregation-mode %s"
SGLANG_ROUTER = "python -m sglang_router.launch_router --pd-disaggregation"


@pytest.mark.parametrize(
    ("prefill", "decode", "router", "told"),
    [
        ("--api-key K", "--api-key=K", None, ["router: endpoint"]),
        ("--api-key K", "--api_key K", "vllm-router --api-key K", ["router: endpoint"]),
        ("--api-key K", "--api-key K", "OPENAI_API_KEY=K vllm-router", ["router: endpoint"]),
        ("--api-key $KEY", "--api-key $KEY", "vllm-router", ["router: endpoint"]),
        ("--api-key K", "--api-key L", None, ["group: key", "router: endpoint"]),
        ("--api-key K", "--api-key K", "vllm-router --api-key L", ["router: endpoint", "router: --api-key"]),
    ],
)
def test_a_key_stands_at_both_ends_out_of_one_variable(prefill, decode, router, told):
    made = convert(prefill=f"{PREFILL} {prefill}", decode=f"{DECODE} {decode}", router=router or "")
    assert made.spec["engine"]["secrets"] == BOTH
    assert made.spec["roles"]["router"]["secrets"] == SHOWN
    decide = [f"{n.role or 'group'}: {n.what}" for n in made.notes if n.outcome == "decide"]
    assert [one for one in decide if "key" in one or "endpoint" in one] == told
    assert codes(judge(action._probe(made.spec)).findings) == ["endpoint-open"]


def test_a_variable_is_a_key_as_well_and_one_side_alone_is_told():
    made = convert(prefill=f"VLLM_API_KEY=K {PREFILL}", decode=f"{DECODE} --api-key K")
    assert made.spec["engine"]["secrets"] == BOTH
    assert "group 0: key" not in noted(made, "decide")
    made = convert(prefill=f"VLLM_API_KEY=K {PREFILL}", decode=DECODE)
    assert made.spec["roles"]["prefill"]["secrets"] == BOTH
    assert "group 0: key" in noted(made, "decide")
    assert made.spec["roles"]["router"]["secrets"] == SHOWN


@pytest.mark.parametrize(("router", "outcome"), [("", "recipe"), ("--api-key K", "recipe"), ("--api-key L", "decide")])
def test_an_engine_without_a_variable_has_its_key_in_a_file(router, outcome):
    lines = {role: f"{SGLANG % role} --api-key K" for role in ("prefill", "decode")}
    made = convert(**lines, router=f"{SGLANG_ROUTER} {router}")
    assert made.spec["engine"]["args"] == ["--config=/etc/inferops-pd/engine.yml"]
    assert made.spec["engine"]["secrets"] == {"SGLANG_API_KEY": "{{ vault_sglang_api_key }}"}
    assert not {"args", "secrets"} & set(made.spec["roles"]["router"])
    assert "prefill 1: --api-key" in noted(made, "decide")
    assert [n.outcome for n in made.notes if n.role == "router" and n.what in ("key", "--api-key")] == [outcome]
    assert codes(judge(action._probe(made.spec)).findings) == ["pairing-unverified"]


def test_the_file_of_the_text_is_kept_and_one_of_a_container_is_mounted():
    lines = {role: f"{SGLANG % role} --api-key {SECRET} --config /etc/x.yml" for role in ("prefill", "decode")}
    made = convert(**lines, router=f"{SGLANG_ROUTER} --api-key {SECRET}x")
    assert made.spec["engine"]["args"] == ["--config=/etc/x.yml"]
    assert SECRET not in whole(made)
    lines = {role: f"docker run lmsysorg/sglang:v1 {SGLANG % role} --api-key K" for role in ("prefill", "decode")}
    assert convert(**lines).spec["engine"]["mounts"] == ["/etc/inferops-pd/engine.yml:/etc/inferops-pd/engine.yml:ro"]


def test_a_key_of_the_router_alone():
    lines = {role: SGLANG % role for role in ("prefill", "decode")}
    made = convert(**lines, router=f"{SGLANG_ROUTER} --api-key K")
    assert "router 1: --api-key" in noted(made, "decide")
    assert not {"args", "secrets"} & set(made.spec["roles"]["router"])


# -- secrets -----------------------------------------------------------------------------------------------------------------------------

SECRET = "S3cr3tS3cr3t"


@pytest.mark.parametrize(
    "line",
    [
        f"HF_TOKEN={SECRET} {PREFILL}",
        f"HF_TOKEN:{SECRET} {PREFILL}",
        f"export VLLM_API_KEY={SECRET}\n{PREFILL}",
        f"{PREFILL} --api-key {SECRET}",
        f"{PREFILL} --api-key={SECRET}",
        f"{PREFILL} --api-key '{SECRET}",
        f"KEY={SECRET}\n{PREFILL} --api-key $KEY",
        f"{PREFILL} --hf-token {SECRET}",
        f"my_api_key={SECRET}\n{PREFILL} --other $my_api_key",
        f"export TOKEN={SECRET}\n{PREFILL} --other=x$TOKEN",
        f"[Service]\nEnvironment=HF_TOKEN={SECRET}\nExecStart={PREFILL} --other ${{HF_TOKEN}}",
        f"docker run -e HF_TOKEN={SECRET} i sh -c '{PREFILL.replace(chr(39), chr(34))} --other $HF_TOKEN'",
        f"{PREFILL} --some-url http://user:{SECRET}@host/",
        f"{PREFILL} --header 'Authorization: Bearer {SECRET}'",
        f"{PREFILL} --thing sk-{SECRET}",
        f"PROXY_PASSWORD={SECRET} {PREFILL}",
        f"docker run -e HF_TOKEN={SECRET} -e AWS_SECRET_ACCESS_KEY={SECRET} image {PREFILL}",
        f"docker login -p {SECRET}\nhf auth login --token {SECRET}\n{PREFILL}",
        f"[Service]\nEnvironment=HF_TOKEN={SECRET}\nExecStart={PREFILL}",
        f"a:\n  image: vllm\n  command: serve\n  environment: [HF_TOKEN={SECRET}]\nb:\n  image: i\n  command: {PREFILL}",
    ],
)
def test_a_secret_is_in_nothing_that_comes_out(line):
    try:
        out = whole(convert(prefill=line, decode=DECODE))
    except PdError as exc:
        out = str(exc)
    assert SECRET not in out


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "VLLM_API_KEY", "PASSWORD", "AWS_SECRET_ACCESS_KEY", "GITHUB_PAT", "MY_CREDENTIALS"]
)
def test_names_of_secrets(name):
    assert secret_name(name)


@pytest.mark.parametrize(
    "name", ["KEYBOARD", "MAX_TOKENS", "HF_HOME", "HF_TOKEN_PATH", "TOKENIZERS_PARALLELISM", "PYTHONPATH"]
)
def test_names_that_are_none(name):
    assert not secret_name(name)


@pytest.mark.parametrize("value", ["http://a:8000/v1", "hf_", "task-12345678", "/data/sk-models"])
def test_values_that_are_none(value):
    assert not secret_value(value)


# -- readers -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b # c", ["a", "b"]),
        ("# don't\na b", ["a", "b"]),
        ("a \\\n  b", ["a", "b"]),
        ("X=1\na $X ${X} '$X' \"$X\"", ["a", "1", "1", "$X", "1"]),
        ("X='b c'\na $X", ["a", "b", "c"]),
        ("X='b c'\na \"$X\"", ["a", "b c"]),
        ("a ${X:-1} ${Y}", ["a", "1", "${Y}"]),
        ("a $(b | c 'd') e", ["a", "$(b | c 'd')", "e"]),
        ("a `b c` e", ["a", "`b c`", "e"]),
        ('X=(b\n  c)\na "${X[@]}" d', ["a", "b", "c", "d"]),
        ("a b > log 2>&1 &", ["a", "b"]),
        ("a b 2>/dev/null", ["a", "b"]),
        ("a <MODEL>", ["a", "<MODEL>"]),
        ("a 'b\nc'", ["a", "b\nc"]),
    ],
)
def test_a_statement_is_read_as_a_shell_does(text, words):
    (statement,) = statements(text)
    assert list(statement.words) == words


def test_statements_have_their_lines():
    assert [(s.words[0], s.line) for s in statements("\na 1 \\\n  2\n\nb; c && d | e\n# f\ng 'x\ny'\nh")] == [
        ("a", 2), ("b", 5), ("c", 5), ("d", 5), ("e", 5), ("g", 7), ("h", 9),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["'" * 9999, "$(" * 9999, "`" * 9999, "(" * 9999, "\\" * 9999, "a=$a\n" * 999, "X=$X$X\n" * 64 + "a $X\n" * 500],
)
def test_hostile_scripts_end(text):
    statements(text)


def test_a_shell_that_starts_itself_ends():
    assert found.of_script('X=\'bash -c "$X"\'\nX="$X" bash -c \'bash -c "$X"\'') == []
    assert found.of_script('X=\'bash -c "$X"\' bash -c "$X"') == []


def test_hostile_yaml_ends():
    lines = ["a0: &a0 {x: 1}"] + [f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}" for n in range(1, 40)]
    with pytest.raises(PdError):
        convert(all="\n".join(lines))


@pytest.mark.parametrize(
    ("line", "image", "command"),
    [
        ("img cmd --a", "img", ["cmd", "--a"]),
        ("-it --rm -p 80:80 -e A=1 img cmd", "img", ["cmd"]),
        ("--gpus=all --name x --ulimit memlock=-1 --init img", "img", []),
        ("-d -eA=1 -v/a:/b img --model m", "img", ["--model", "m"]),
        ("--entrypoint /bin/x img --a", "img", ["/bin/x", "--a"]),
    ],
)
def test_docker_run_ends_at_its_image(line, image, command):
    made = container.of_run(line.split(), 1)
    assert (made.image, list(made.command)) == (image, command)


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ("vllm serve m", "vLLM"),
        ("/opt/x/bin/vllm serve m", "vLLM"),
        ("nohup numactl -N 0 vllm serve m", "vLLM"),
        ("python3 -u -m vllm.entrypoints.openai.api_server --model m", "vLLM"),
        ("uv run -m sglang.launch_server", "SGLang"),
        ("/venv/bin/python3.12 -m sglang.launch_server", "SGLang"),
        ("python -m sglang_router.launch_router", "sglang-router"),
        ("vllm-router --port 1", "vllm-router"),
        ("python3 a/toy_proxy_server.py", "another router"),
        ("bash -lc 'cd /x && exec vllm serve m'", "vLLM"),
        ("docker run img vllm serve m", "vLLM"),
        ("sudo docker run vllm/vllm-openai --model m", "vLLM"),
        ("docker run img bash -c 'vllm serve m'", "vLLM"),
        ("ssh gpu1 'cd /x && CUDA_VISIBLE_DEVICES=0 vllm serve m'", "vLLM"),
        ('tmux new -d -s p "python -m sglang.launch_server --model-path m"', "SGLang"),
        ("docker exec -it c bash -c 'vllm serve m'", "vLLM"),
        ("$ vllm serve m", "vLLM"),
    ],
)
def test_what_starts_an_engine_or_a_router(words, program):
    assert [launch.program for launch in found.of_script(words)] == [program]


@pytest.mark.parametrize(
    "words",
    [
        "vllm bench serve",
        "pip install vllm",
        "docker ps",
        "python bench.py",
        "curl http://a",
        "docker pull vllm/vllm-openai",
    ],
)
def test_what_starts_none(words):
    assert found.of_script(words) == []


def test_a_prompt_in_front_of_a_line_is_none_of_it():
    (launch,) = found.of_script("$ A=1 vllm serve m")
    assert [(v.name, v.value) for v in launch.env] == [("A", "1")]


def test_flags_that_a_comment_cuts_off_are_told():
    made = convert(
        prefill=f"{PREFILL} \\\n  --seed 1 \\\n  # --block-size 2 \\\n  --max-num-seqs 3", decode=f"{DECODE} --seed 1"
    )
    assert made.spec["engine"]["args"] == ["--seed=1"]
    assert "group 4: --max-num-seqs" in noted(made, "decide")


PIECES = st.sampled_from(
    ["vllm serve ", "/models/m", " --a", "=", " ", "\n", "\\\n", "'", '"', "$X", "${X:-1}", "$(", ")", "`", "#", "X=", "&&", "|", ">", "(",
     "{", "docker run ", "-e ", "-v /a:/b ", "python -m sglang.launch_server ", "[Service]\nExecStart=", "services:\n a:\n  image: ",
     "\n  command: ", NIXL % "producer", "bash -c ", "--kv-transfer-config ", "😀", "\x00"]
)  # fmt: skip


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(st.lists(PIECES, max_size=24).map("".join))
def test_no_text_is_a_traceback(text):
    try:
        made = convert(prefill=f"{PREFILL}\n{text}", all=text, decode=DECODE)
    except PdError:
        return
    yaml.safe_load(action.written("g", made.spec, made.notes))


# -- the file ------------------------------------------------------------------------------------------------------------------------------


def test_a_file_that_was_edited_is_seen():
    made = convert(prefill=PREFILL, decode=DECODE)
    text = action.written("g", made.spec, made.notes)
    assert action.untouched(text)
    assert text == action.written("g", made.spec, made.notes)
    assert not action.untouched(text + "# mine\n")
    assert not action.untouched("pd_groups: {}\n")
    assert t.cast("dict[str, t.Any]", yaml.safe_load(text))["pd_groups_g"]["g"] == made.spec
