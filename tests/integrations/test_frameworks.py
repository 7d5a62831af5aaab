"""The call-backs and the recorder's own marks in real trainings: a model of a few numbers, on the CPU."""

from __future__ import annotations

import pytest

BY_THE_RECORDER = ("start DataLoader", "first batch", "first step", "model to device", "torch.save", "torch.load", "parse arguments")
"""Of any torch program; here only what stands around them is looked at."""

LIGHTNING = """
import pickle, warnings
warnings.filterwarnings("ignore")
import torch
from torch.utils.data import DataLoader
import NAME as framework
from flatline.integrations.lightning import Phases
assert issubclass(Phases, framework.Callback)
assert type(pickle.loads(pickle.dumps(Phases()))) is Phases

class Model(framework.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.fails_at = None
    def training_step(self, batch, index):
        if self.global_step == self.fails_at:
            raise ArithmeticError("no number")
        return self.layer(batch).sum()
    def validation_step(self, batch, index):
        self.log("loss", self.layer(batch).sum())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

def trainer():
    keep = framework.callbacks.ModelCheckpoint(dirpath="checkpoints", save_top_k=-1)
    return framework.Trainer(
        max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0, callbacks=[keep, Phases(every_s=0)],
    )

data, model = DataLoader(torch.randn(4, 4), batch_size=2), Model()
trainer().fit(model, data, data)
model.fails_at = 1
try:
    trainer().fit(model, data, data)
except ArithmeticError:
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pytorch_lightning", "lightning.pytorch"])
def test_a_training_of_lightning(job, name):
    job.train(LIGHTNING.replace("NAME", name))
    assert job.marks(*BY_THE_RECORDER) == [
        "+ training", "+ after step 0",
        "- after step 0", "+ epoch 0", "+ after step 0",
        "- after step 0", "+ after step 1",
        "- after step 1", "+ after step 2",
        "+ evaluation", "- evaluation",
        "- after step 2", "- epoch 0", "+ after step 2",
        "+ save checkpoint", "- save checkpoint",
        "- after step 2", "+ epoch 1", "+ after step 2",
        "- after step 2", "+ after step 3",
        "- after step 3", "+ after step 4",
        "+ evaluation", "- evaluation",
        "- after step 4", "- epoch 1", "+ after step 4",
        "+ save checkpoint", "- save checkpoint",
        "- after step 4", "- training",
        # and one that an error ends
        "+ training", "+ after step 0", "- after step 0", "+ epoch 0", "+ after step 0", "- after step 0", "+ after step 1",
        "- after step 1", "- epoch 0", "- training",
    ]  # fmt: skip
    assert not job.ring().open


TRANSFORMERS = """
import pickle, warnings
warnings.filterwarnings("ignore")
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
from flatline.integrations.transformers import Phases
assert issubclass(Phases, TrainerCallback)
assert type(pickle.loads(pickle.dumps(Phases()))) is Phases

model = BertForSequenceClassification(BertConfig(
    vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, max_position_embeddings=8))
data = [{"input_ids": torch.tensor([1, 2, 3]), "labels": torch.tensor(1)} for _ in range(8)]
settings = TrainingArguments(
    "out", per_device_train_batch_size=2, gradient_accumulation_steps=2, num_train_epochs=2, eval_strategy="epoch",
    save_strategy="epoch", report_to=[], use_cpu=True, disable_tqdm=True)
trainer = Trainer(model, settings, train_dataset=data, eval_dataset=data)
trainer.add_callback(Phases(every_s=0))
trainer.train()
"""


@pytest.mark.slow
def test_a_training_of_transformers(job):
    job.train(TRANSFORMERS)
    inner = ("prepare", "save weights", "load weights")
    assert job.marks(*BY_THE_RECORDER, *inner) == [
        "+ training", "+ after step 0",
        "- after step 0", "+ epoch 0", "+ after step 0",
        "- after step 0", "+ after step 0",  # the first half of a step of two batches
        "- after step 0", "+ after step 1",
        "- after step 1", "+ after step 1",
        "- after step 1", "+ after step 2",
        "- after step 2", "- epoch 0", "+ after step 2",
        "+ evaluation", "- evaluation",
        "+ save checkpoint", "- save checkpoint",
        "- after step 2", "+ epoch 1", "+ after step 2",
        "- after step 2", "+ after step 2",
        "- after step 2", "+ after step 3",
        "- after step 3", "+ after step 3",
        "- after step 3", "+ after step 4",
        "- after step 4", "- epoch 1", "+ after step 4",
        "+ evaluation", "- evaluation",
        "+ save checkpoint", "- save checkpoint",
        "- after step 4", "- training",
    ]  # fmt: skip
    assert {f"+ {name}" for name in ("prepare", "save weights", "first step", "first batch")} <= set(job.marks())
    assert not job.ring().open


ACCELERATE = """
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), DataLoader(torch.randn(4, 4)))
for epoch in range(2):
    model.train()
    for batch in data:
        optimizer.zero_grad()
        accelerator.backward(model(batch).sum())
        optimizer.step()
    model.eval()
model.train()
accelerator.save_state("kept")
accelerator.load_state("kept")
"""


@pytest.mark.slow
def test_a_loop_with_accelerate_needs_no_call_back(job):
    job.train(ACCELERATE)
    assert job.marks(*BY_THE_RECORDER) == [
        "+ prepare", "- prepare",
        "+ evaluation", "- evaluation", "+ evaluation", "- evaluation",
        "+ save state", "+ save weights", "- save weights", "- save state",
        "+ load state", "+ load weights", "- load weights", "- load state",
    ]  # fmt: skip
    assert not job.ring().open
