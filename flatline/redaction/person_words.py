"""The words that names of users and hosts are judged by. Lower case; their order means nothing."""

from __future__ import annotations


def words_of(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


SERVICE_USERS = words_of("""
    root nobody nogroup daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats sshd
    messagebus syslog _apt ntp chrony dbus polkitd avahi postfix rpc rpcuser statd tss uuidd tcpdump landscape
    pollinate nvidia-persistenced munge slurm slurmd postgres mysql redis nginx apache docker containerd git kernel
    adm operator halt shutdown ftp lxd usbmux dnsmasq system linuxbrew sgx systemd-network systemd-resolve
    systemd-timesync systemd-coredump systemd-oom conda
""")
"""Of the system or of a service: they stay, and say nothing about anybody."""

COMMON = words_of("""
    data admin administrator test tests tester testing user users model models ubuntu debian centos fedora ec2-user
    guest app apps dev develop developer demo default training train trainer work worker workspace project projects
    shared share public private home local remote host hosts node nodes server client master main base build builder
    runner jenkins hadoop spark ray jupyter jovyan vscode nvidia cuda torch pytorch tensor python pip conda miniconda
    anaconda research student students staff group team service system super owner login logger logs cache temp tmp
    scratch store storage backup export import input output config configs settings source sources script scripts
    result results report reports dataset datasets image images video audio text token tokens tokenizer layer layers
    block blocks batch batches epoch epochs step steps loss losses optim optimizer scheduler schedule gradient grad
    grads weight weights bias param params parameter checkpoint checkpoints ckpt eval evaluate evaluation metric
    metrics score valid validation sample samples sampler loader dataloader process processes thread threads queue
    queues lock locks event events timer time times date start stop begin finish finished done wait waiting error
    errors warn warning warnings info debug trace fatal critical notset true false null none value values name names
    type types class classes function method module modules package packages library object objects string number
    count total size length width height index offset range first last next prev previous current open close closed
    read write reader writer send recv receive request response message messages file files path paths folder
    directory line lines column table row rows field fields key keys item items list lists dict map set sets array
    vector matrix shape dtype device devices memory kernel driver version release update upgrade install update
    running failed failure success aborted killed signal abort exit code status state mode level stage phase rank
    ranks world local global size port ports address network socket sockets connection connect connected timeout retry
    retries attempt nccl gloo slurm docker container kubernetes cluster compute login gateway proxy controller manager
    monitor agent actor head tail leader slave primary secondary replica peer parent child children root linux windows
    android intel amd apple google amazon azure alpha beta gamma delta theta sigma omega alice-bob apollo atlas hello
    world foo bar baz qux example sample temp dummy mock fake none unknown anonymous nobody someone people person
    llama gpt bert mistral gemma qwen falcon vision language speech audio diffusion stable transformer attention
    encoder decoder embedding hidden linear conv dropout norm softmax relu gelu adam adamw lion muon cosine constant
    warmup decay max min sum mean std var abs all any low high mid top left right up down in out on off yes no new old
    end run runs job jobs task tasks tool tools core cores pool dist deep fast slow fully auto json yaml toml html
    http https tcp udp ssh ftp math stats random torchrun accelerate deepspeed megatron lightning fsdp ddp inference
    serve serving benchmark bench profile profiler analysis analyzer collector flatline rules case bundle
""")
FILE_ENDINGS = words_of("""
    py pyx pyi pyc c cc cpp cxx cu cuh h hh hpp rs go js ts java rb pl sh bash zsh so dll dylib a o yaml yml json
    jsonl toml txt log md rst cfg conf ini env pt pth bin safetensors onnx npz npy csv tsv parquet arrow whl zip gz
    bz2 xz tar tgz png jpg jpeg gif svg html htm css xml lock pid sock service socket slice scope mount timer target
    device path ipynb sif sqsh sbatch slurm out err part new tmp bak pkl pickle ckpt distcp proto sql db sqlite
""")
TLDS = words_of("""
    com org net edu gov mil int info biz name io ai dev app cloud tech science academy university online site xyz
    email example test invalid local localhost localdomain internal intranet intra lan corp home private cluster hpc
    arpa tv ac ad ae af ag al am ar at au aw az ba bb bd be bg bh bo br bs bw by bz ca ch ci ck cl cm cn co cr cu cy
    cz de dk do dz ec ee eg es et eu fi fj fr ge gh gi gl gr gt gy hk hn hr hu id ie il im in iq ir is it je jm jo jp
    ke kg kh kr kw kz la lb li lk lt lu lv ly ma md me mk ml mm mn mo mt mu mv mw mx my mz na ne ng ni nl no np nu nz
    om pa pe pf pg ph pk pl pr ps pt py qa ro rs ru rw sa sc se sg si sk sm sn st su sv sy th tj tm tn to tr tt tw tz
    ua ug uk us uy uz va ve vn ws ye za zm zw
""")
PUBLIC_DOMAINS = words_of("""
    github.com githubusercontent.com gitlab.com bitbucket.org huggingface.co hf.co wandb.ai pypi.org pythonhosted.org
    pytorch.org python.org tensorflow.org nvidia.com nvcr.io docker.io docker.com quay.io ghcr.io gcr.io pkg.dev
    amazonaws.com aws.amazon.com googleapis.com google.com cloudfront.net anaconda.org anaconda.com conda.io
    ubuntu.com debian.org openai.com anthropic.com modelscope.cn readthedocs.io sentry.io comet.com comet.ml
    neptune.ai mlflow.org azure.com windows.net microsoft.com aka.ms apache.org kubernetes.io k8s.io kernel.org
    gnu.org w3.org schema.org json-schema.org openssl.org lightning.ai ray.io databricks.com redhat.com centos.org
    fedoraproject.org stackoverflow.com arxiv.org cloudflare.com npmjs.org npmjs.com jupyter.org numpy.org scipy.org
    pydantic.dev
""")
GENERIC_DOMAINS = words_of("""
    local localdomain lan internal home arpa cluster.local svc.cluster.local ec2.internal compute.internal svc compute
""")
"""What every network of a kind is called: kept, since it tells the kind."""
