"""What the README of a bundle says of redaction."""

from __future__ import annotations

from flatline.redaction import Redactor
from flatline.redaction.told import what_is_hidden


def test_secrets_and_names_are_counted_apart():
    redactor = Redactor()
    redactor.text("HF_TOKEN=x8Fk2mQ9zL77aB\nHF_TOKEN=x8Fk2mQ9zL77aB USER=jdoe7\nMASTER_ADDR=gpubox-9\n10.1.2.3:80\n")
    told = what_is_hidden(redactor.counts)
    assert told[0] == "Secrets are replaced by marks like ⟪kind·1⟫: 2 x token."
    assert told[1].endswith("pseudonyms like ⟪host·3⟫: 1 x host, 1 x ip-private, 1 x user.")


def test_it_says_what_is_kept_and_how_to_check_also_when_nothing_was_found():
    told = "\n".join(what_is_hidden({}))
    assert told.count("none was found") == 2
    assert "Kept" in told
    assert "flatline redact --check BUNDLE" in told
