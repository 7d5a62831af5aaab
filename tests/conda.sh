#!/bin/sh
# tests/conda.sh PIP FOLDER: conda's own code in an environment at FOLDER, for `conda run` and for what `conda activate` does.
# PyPI has no conda, but conda-lock ships the code of conda 24.7.1, under another name. The one file of `conda activate`
# that it leaves out, the shell function, is written here as short as it can be.
set -eu
pip="$1 --python $2/bin/python install --quiet --disable-pip-version-check"
$pip pluggy boltons requests tqdm ruamel.yaml packaging platformdirs
$pip --no-deps conda-lock==4.0.3
cd "$2"/lib/python3.*/site-packages
rm -rf conda
mv conda_lock/_vendor/conda conda
rm -rf conda_lock conda_lock-*.dist-info
find conda -name '*.py' -exec sed -i 's/conda_lock\._vendor\.conda/conda/g' {} +
mkdir -p conda/shell/etc/profile.d
cat >conda/shell/etc/profile.d/conda.sh <<'END'
conda() {
    case "$1" in
        activate | deactivate) eval "$("$CONDA_EXE" shell.posix "$@")" ;;
        *) "$CONDA_EXE" "$@" ;;
    esac
}
END
cd ../../../bin
printf '#!/bin/sh\nexec "%s/python" -m conda "$@"\n' "$PWD" >conda
chmod +x conda
