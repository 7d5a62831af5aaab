"""Forms over two lines, escaped, in code, in an answer of a debugger, each with one made-up secret; see `SECRETS`."""
# fmt: off

from __future__ import annotations

import random
import string

_RANDOM = random.Random(20261201)
HARMLESS = "gpt2-medium"


def tok(number: int = 24) -> str:
    return "Kx" + "".join(_RANDOM.choices(string.ascii_letters + string.digits, k=number - 4)) + "q7"


SECRETS: dict[str, tuple[str, str, tuple[str, ...]]] = {}
"""What it is -> (text, secret, what stays)."""


def form(what: str, text: str, *stays: str, secret: str = "") -> None:
    """`@` in the text is the secret."""
    secret = secret or tok()
    SECRETS[what] = (text.replace("@", secret), secret, stays)


form("option below", "python\ntrain.py\n--api-key\n@\n--lr\n1e-4\n", "train.py\n--api-key\n", "--lr\n1e-4")
form("option below: windows", "--hf-token\r\n@\r\n--seed\r\n7\r\n", "--seed\r\n7")
form("option below: kubectl describe", "    Args:\n      --db-password\n      @\n      --lr\n      0.1\n", "--lr\n      0.1")
form("option below: yaml", "args:\n- --api-key\n- @\n- --lr\n- '0.1'\n", "- --lr\n- '0.1'")
form("option below: yaml, quoted", 'args:\n  - "--client-secret"\n  - "@"\n  - "--lr"\n', '- "--lr"')
form("option below: yaml, single quotes", "- '--auth-token'\n- '@'\n- t.py\n", "- t.py")
form("option below: json", '"args": [\n        "--api-key",\n        "@",\n        "--lr"\n]', '"--lr"\n]')
form("option below: escaped", r'{"cmdline": "t.py\n--api-key\n@\n--lr\n3"}', r'\n--lr\n3"}')
form("continued line", "python t.py --api-key \\\n    @ \\\n    --lr 1\n", "--lr 1")
form("continued line: more behind", "python t.py --api-key \\\n    @ --lr 1\n", "--lr 1")
form("continued line: powershell", "python t.py --hub-token `\n    @ `\n    --lr 1\n", "--lr 1")
form("continued line: glued", "python t.py --db-password\\\n    @\\\n    --lr 1\n", "--lr 1")
form("continued behind: export", "export WANDB_API_KEY=@\\\npython t.py\n", "\\\npython t.py")
form("continued behind: in a command", "run api_key=@\\\n --lr 1\n", "\\\n --lr 1")
form("continued behind: option", "  --db-password=@\\\n  --lr 1\n", "\\\n  --lr 1")
form("continued in its middle", "api_key=Kq83hsnTqw61bd\\\n@\nRANK=0\n", "RANK=0")
form("html", "<pre>{&quot;api_key&quot;: &quot;@&quot;, &quot;lr&quot;: 3}</pre>", "&quot;lr&quot;: 3}</pre>")
form("html: by number", "{&#34;password&#34;:&#34;@&#34;,&#34;port&#34;:5}", "&#34;port&#34;:5")
form("html: apostrophes", "{&#x27;hf_token&#x27;: &#x27;@&#x27;}", "&#x27;}")
form("html: twice", "{&amp;quot;password&amp;quot;: &amp;quot;@&amp;quot;}", "&amp;quot;}")
form("html: a list", "[&quot;--api-key&quot;, &quot;@&quot;, &quot;--lr&quot;]", "&quot;--lr&quot;]")
form("url: json", "GET /run?cfg=%7B%22password%22%3A%22@%22%2C%22lr%22%3A3%7D HTTP/1.1", "%22%2C%22lr%22%3A3%7D HTTP/1.1")
form("url: json with blanks", "q=%7B%22api_key%22%3A+%22@%22%7D&n=1", "%22%7D&n=1")
form("url: python", "q=%27hf_token%27%3A%20%27@%27", "%27")
form("url: twice", "q=%257B%2522password%2522%253A%2522@%2522%257D", "%2522%257D")
KAGGLE = "4b1e09d2c7a85f63e0a1b2948d7c6f35"
form("kaggle", '{"username":"mk7","key":"@"}', '"key":"', secret=KAGGLE)
form("kaggle: key first", '{"key": "@", "username": "mk7"}', '"username": "', secret=KAGGLE[::-1])
form("kaggle: over lines", '{\n  "username": "mk7",\n  "key": "@"\n}\n', '"key": "', secret=KAGGLE[5:] + KAGGLE[:5])
form("make", "API_KEY ?= @\nLR ?= 3\n", "LR ?= 3")
form("setattr", 'setattr(self.cfg, "api_key", "@")  # late', "# late")
form("setter: python", 'client.set_api_key("@")', 'client.set_api_key("')
form("setter: java", 'ds.setPassword("@");', '");')
form("setter: builder", 'Client.builder()\n  .user("mk7")\n  .password("@")\n  .build()', ".build()")
form("setter: builder, key", "new Client().apiKey('@').build()", ".build()")
form("typescript", '  secretKey?: "@",\n  port?: 80', "port?: 80")
form("rust", 'Config { password: Some("@"), port: 80 }', "port: 80")
form("rust: a string", 'api_key: String::from("@"), n: 3', "n: 3")
form("dataclass", 'password: Optional[str] = field(default="@")\nn: int = 3', "n: int = 3")
form("pydantic", 'api_key: str = Field(..., default="@", min_length=3)', "min_length=3")
form("concatenated", 'api_key = "abc" + "@"\nlr = 3', "lr = 3")
form("concatenated, over lines", "token = 'kqx' + \\\n    '@'\nlr = 3", "lr = 3")
form("powershell", '-Password (ConvertTo-SecureString "@" -AsPlainText)', "-AsPlainText)")
form("message", "AuthError: token '@' is invalid", "' is invalid")
form("message: a secret", 'no access with secret "@" (rank 3)', "(rank 3)")
form("hadoop: azure", "fs.azure.account.key.x.blob.core.windows.net=@\nfs.n=3", "fs.n=3")
form("hadoop: xml", "<name>fs.s3a.secret.key</name>\n  <value>@</value>", "</value>")
form("sudo", "echo @ | sudo -S apt update", "| sudo -S apt update")
form("sudo: printf", r"printf '@\n' | sudo -H -S true", "| sudo -H -S true")
form("answer: environ", ">>> os.environ[\"DB_PASSWORD\"]\n'@'\n>>> x", ">>> x")
form("answer: getenv", ">>> print(os.getenv('HF_TOKEN'))\n@\n>>> x", ">>> x")
form("answer: gdb", '(gdb) p api_key\n$1 = 0x55 "@"\n(gdb) c', "$1 = 0x55", "(gdb) c")
form("answer: gdb, its type", '(gdb) print cfg.api_key\n$12 = (char *) 0x5555ab "@"\n', "$12 = (char *) 0x5555ab")
form("answer: cat", "$ cat ~/.cache/huggingface/token\n@\n$ ls\n", "$ ls")
form("answer: cat, as root", "root@x:/# cat /run/secrets/db_password\n@\n", "# cat /run/secrets/db_password")
form("locals: a pair", "        auth: ('mk7', '@')\n        lr: 3\n", "lr: 3")
form("url: behind the hash", "https://h.test/cb#access_token=@&type=bearer", "&type=bearer")
form("said", "my passwd is @\nsee you", "see you", secret="swordfish")
form("said: in a sentence", "hi, my password is @, thanks", ", thanks", secret="hollyhock")

LOOK_ALIKES = [
    "--max-tokens\n4096\n--stop-token-ids\n151643\n", "--api-key\n    where to find it\n", "--token\n--lr\n3\n",
    "--hf-token\n    string\n", "--token\n/run/secrets/token\n", f"--tokenizer\n{HARMLESS}\n", "- --api-key\n- $(API_KEY)\n- --lr\n",
    "python t.py --lr 1 \\\n  --api-key ${WANDB_API_KEY} \\\n  --seed 2\n", "export LR=3e-4\\\nexport SEED=3\n",
    "&quot;max_tokens&quot;: &quot;4096&quot;", "&quot;pad_token&quot;: &quot;&lt;pad&gt;&quot;", "%22max_tokens%22%3A%224096%22",
    "%22pad_token%22%3A%22%3Cpad%3E%22", '{"key":"4b1e09d2c7a85f63e0a1b2948d7c6f35","n":3}', "is_token?: boolean", "password?: string",
    "API_KEY ?= $(shell cat key)", 'get_password("service123456")', 'check_token("abc1234567890abcd")', "set_seed(1234)",
    "client.set_token(token)", f"model.set_token('{HARMLESS}')", 'setattr(cfg, "cache_key", "a1b2c3d4e5f6a7b8")',
    "token: Optional[str] = field(default=None)", 'token: Optional[str] = field(default="auto")', 'key = "abc" + "def"',
    "token = 'abc' + str(n)", "unknown token 'checkpoint_v12'", "token '<|endoftext|>' is not in the vocabulary",
    "echo hello1 | sudo tee /x", "fs.azure.account.auth.type=SharedKey", ">>> os.environ['NCCL_DEBUG']\n'INFO'\n>>> x",
    '(gdb) p buffer\n$1 = 0x55 "abc1234567890"\n', "my password is not accepted", "my password is rejected", "my passwd is being reset",
    "$ cat logs/run_token_count\n73400320\n", "$ cat /etc/hostid_key\nab12cd34\n", "$ cat notes/token\ngpt2-medium\n",
    "my password is 12 characters long", "my password is in the vault",
]
