"""Secrets whose name stands beside them as a value itself: in one object, in one element, in one row."""

from __future__ import annotations

import json
import time

import pytest

from flatline.redaction import Redactor, redact_text
from flatline.redaction.documents import redact_document

SECRET = "Rk4TtvX81mQzLw96"
FORMS = {
    "py-spy": """{"name": "f", "locals": [{"name": "api_key", "addr": 140, "arg": true, "repr": "'@'"}]}""",
    "py-spy, a string with quotes": r'{"name": "password", "addr": 140, "arg": false, "repr": "\"@\""}',
    "py-spy, bytes": """{"name": "api_key", "repr": "b'@'"}""",
    "py-spy, cut": """{"name": "api_key", "repr": "'@..."}""",
    "py-spy, pydantic": """{"name": "hf_token", "arg": false, "repr": "SecretStr('@')"}""",
    "py-spy, indented": '{\n  "name": "api_key",\n  "addr": 140,\n  "arg": true,\n  "repr": "\'@\'"\n}',
    "json in json": r'"{\"name\": \"api_key\", \"arg\": true, \"repr\": \"@\"}"',
    "json in json, indented": r'"{\n  \"name\": \"api_key\",\n  \"arg\": true,\n  \"repr\": \"@\"\n}"',
    "an object between": '{"name": "api_key", "type": {"name": "str"}, "repr": "@"}',
    "value before": '{"repr": "@", "arg": true, "name": "api_key"}',
    "value before, in lines": '{\n "value": "@",\n "type": "str",\n "name": "api_key"\n}',
    "variables of CI": '{"variable_type":"env_var","key":"API_TOKEN","masked":true,"value":"@"}',
    "settings of a cloud": '[\n  {\n    "name": "DB_PASSWORD",\n    "slotSetting": false,\n    "value": "@"\n  }\n]',
    "parameter store": '{"Name": "/prod/db/password", "Type": "SecureString", "Value": "@"}',
    "debug adapter": """{"name":"api_key","evaluateName":"api_key","type":"str","value":"'@'"}""",
    "password manager": '{"id": "password", "type": "CONCEALED", "label": "password", "value": "@"}',
    "two words": '{"label": "API key", "value": "@"}',
    "val": "Row(key='api_key', val='@')",
    "data": '{"name": "api_key", "data": "@"}',
    "default": '{"name": "api_key", "type": "string", "default": "@"}',
    "OpenTelemetry": '{"key":"api_key","value":{"stringValue":"@"}}',
    "OpenTelemetry's Python": 'KeyValue(key="api_key", value=AnyValue(string_value="@"))',
    "gdb/mi": '{name="api_key",type="char *",value="0x7ffe12 \\"@\\""}',
    "Kubernetes": "env:\n- name: RANK\n  value: '0'\n- name: API_KEY\n  value: @\n",
    "Kubernetes, described": "- name: API_KEY\n  description: what opens the door\n  value: @\n",
    "Kubernetes, flow": "- {name: API_KEY, value: @}",
    "Kubernetes, Go": "EnvVar{Name:API_KEY,Value:@,ValueFrom:nil,}",
    "docker inspect": '"Env": [\n "PATH=/usr/bin",\n "API_KEY=@"\n]',
    "Helm": "--set name=API_KEY,value=@",
    "protobuf": 'env {\n  name: "API_KEY"\n  value: "@"\n}',
    "logfmt": "level=info key=api_key type=str value=@",
    "JavaScript": "{ name: 'api_key', secret: true, value: '@' }",
    "Ruby": '{:name=>"api_key", :value=>"@"}',
    "PowerShell": "Name   : api_key\nType   : s\nValue  : @\n",
    "psql, expanded": "-[ RECORD 1 ]\nname  | api_key\nvalue | @\n",
    "value below its name": "API_KEY:\n    type: str\n    value: @",
    "schema": '"api_key": {"type": "string", "value": "@"}',
    "section": '[secrets.api_key]\nvalue = "@"',
    "quoted twice": """"vars": {"api_key": "'@'"}""",
    "Hadoop": "<property><name>db.password</name><value>@</value></property>",
    "Hadoop, described": "<property>\n  <name>api_key</name>\n  <description>x y</description>\n  <value>@</value>\n</property>",
    "attributes": '<add key="password" type="string" value="@"/>',
    "attributes, value before": '<property value="@" name="password"/>',
    "entry": '<entry key="api_key">@</entry>',
    "plist": "<key>api_key</key>\n<string>@</string>",
    "table of a page": "<tr><td>api_key</td><td><code>@</code></td></tr>",
    "Markdown": "| name | type | value |\n|---|---|---|\n| api_key | str | @ |",
    "frame": "│ api_key │ str │ @ │",
    "columns": "NAME      TYPE  VALUE\napi_key   str   @\n",
    "CSV": "name,type,value\nrank,int,0\napi_key,str,@\n",
    "TSV": "name\tvalue\napi_key\t@\n",
    "row of JSON": '["api_key", "str", "@"]',
}
STEPS = "step 1 loss 2.0 went\n" * 1500


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("around", ["", STEPS], ids=["alone", "in a long log"])
def test_a_secret_beside_its_name_is_hidden(form, around):
    hidden = redact_text(f"{around}\n{FORMS[form].replace('@', SECRET)}\n{around}")
    assert SECRET not in hidden
    assert redact_text(hidden) == hidden


@pytest.mark.parametrize("form", [form for form in FORMS if form.startswith(("py-spy", "Open", "value before"))])
def test_json_stays_json(form):
    text = FORMS[form].replace("@", SECRET)
    if not text.startswith("{"):
        return
    json.loads(redact_text(text))
    document = redact_document("raw/stacks.json", text, Redactor())
    assert SECRET not in document
    json.loads(document)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "tokenizer", "arg": true, "repr": "LlamaTokenizer48k"}',
        '{"name": "max_tokens", "repr": "4096"}',
        '{"name": "pad_token", "repr": "\'<pad>\'"}',
        '{"name": "api_key", "arg": true, "repr": "None"}',
        '{"name": "api_key", "addr": 140213998, "arg": true}',
        '{"name": "api_key", "arg": true}, {"name": "run_id", "repr": "\'Rk4TtvX81mQzLw96\'"}',
        '{"id": "token", "type": "bpe", "content": "hello"}',
        "- name: API_KEY\n  valueFrom:\n    secretKeyRef:\n      name: db\n      key: password\n- name: RUN\n  value: Rk4TtvX81mQzLw96\n",
        "- name: RUN\n  value: Rk4TtvX81mQzLw96\n- name: API_KEY\n  valueFrom: x\n",
        '[{"value": "Rk4TtvX81mQzLw96", "name": "run"}, {"name": "api_key"}]',
        "<tr><td>api_key</td><td>required</td><td>string</td></tr>",
        "| api_key | str | the key of the service | required |",
        "api_key,name,rank\n",
        "password   must be longer   than 8",
        "token   str   Rk4TtvX81mQzLw96",
    ],
)
def test_what_stands_beside_another_name_stays(text):
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "unit",
    [
        '{"name":"api_key",', '"name":"api_key","a":1,', '{"a":{"name":"api_key",', "name: api_key\n", "- name: api_key\n  a: b\n",
        '"value":"x","name":"api_key",', "value: x\n", "{{{{name=api_key ", "<name>api_key</name>", "<name>api_key</name><a>b</a>", "api_key|a|",
        "|api_key", "api_key,a,", "\napi_key,a,b", "api_key:\n  a: b\n", 'name: "api_key', "name:'api_key',x:\"", "api_key: {", '"repr":"\'x',
    ],
    ids=ascii,
)  # fmt: skip
def test_one_endless_line_takes_linear_time(unit):
    begin = time.process_time()
    Redactor().text(unit * (200_000 // len(unit)))
    assert time.process_time() - begin < 8, "about a second; quadratic would be minutes"
