"""Test that passwords, tokens and keys are replaced, with and without a label."""

from __future__ import annotations

import re

import pytest

from probes.base.rows import read_rows
from probes.redaction.text import TextRedactor

UPPER = "A1B2C3D4E5F6G7H8J9K0"
MIXED = "aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX2"
TOKENS = {
    **{
        prefix: prefix + MIXED
        for prefix in ("hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-")
    },
    **{prefix: prefix + UPPER for prefix in ("AKIA", "ASIA", "AROA", "AIDA")},
    **{f"xox{letter}-": f"xox{letter}-{MIXED}" for letter in "abeprs"},
    **{
        prefix: prefix + MIXED
        for prefix in ("sk-", "nvapi-", "AIza", "npm_", "pypi-", "dckr_pat_", "dop_v1_", "r8_")
    },
    **{prefix: prefix + MIXED for prefix in ("ya29.", "wandb_v1_")},
    "SG.": f"SG.{MIXED[:16]}.{MIXED[16:]}",
    "eyJ": f"eyJ{MIXED[:12]}.{MIXED[12:24]}.{MIXED[24:]}",
}


MORE_TOKENS = {
    **{
        prefix: prefix + MIXED
        for prefix in (
            "api_org_", "glrt-", "gldt-", "xapp-", "GOCSPX-", "rubygems_", "dckr_oat_", "doo_v1_",
            "sk_live_", "rk_test_", "whsec_", "hvs.", "hvb.", "gsk_", "xai-", "tskey-auth-", "pplx-",
            "tgp_v1_", "fw_", "csk-", "pcsk_", "lsv2_pt_", "rpa_", "KGAT_", "glsa_", "glc_", "sntrys_",
            "dp.pt.", "lin_api_", "ntn_", "ATATT3", "fm2_", "12345678:AA", "A1b2C3d4E5f6G7.atlasv1.",
        )
    },
    **{prefix: prefix + UPPER * 2 for prefix in ("NRAK-", "AGE-SECRET-KEY-1")},
    **{prefix: prefix + "0123456789abcdef" * 2 for prefix in ("dapi", "pul-", "PMAK-", "shpat_")},
}  # fmt: skip
TOKENS |= MORE_TOKENS


def test_every_issuer_is_tested() -> None:
    for row in read_rows("token_formats")["tokens"]:
        assert any(re.fullmatch(row["form"], token, re.IGNORECASE) for token in TOKENS.values()), row


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("mounting with password hunter2quill now", "hunter2quill"),
        ("the password is 'swordfish' here", "swordfish"),
        ("passphrase correcthorse", "correcthorse"),
        ("luks.key=/tmp/x7Gq91kd0sPz", "x7Gq91kd0sPz"),
        ("rd.luks.key=c2VjcmV0LWtleQ==", "c2VjcmV0LWtleQ"),
    ],
)
def test_a_password_in_a_sentence_is_replaced(text: str, secret: str) -> None:
    assert secret not in TextRedactor(b"a").text(text)


@pytest.mark.parametrize(
    "text",
    [
        "sshd: Failed password for invalid user admin",
        "Password authentication failed, password required, password incorrect",
        "Changing password policies: password aging; password hashing rounds",
        "the password must contain digits; password expired; password file missing",
    ],
)
def test_sentences_about_passwords_stay(text: str) -> None:
    assert TextRedactor(b"a").text(text) == text


@pytest.mark.parametrize("prefix", TOKENS)
def test_every_documented_token_is_replaced_without_a_label(prefix: str) -> None:
    """Cover each prefix alone: dropping a prefix from the pattern would leave its token readable."""
    token = TOKENS[prefix]
    for text in (f"clone with {token} today", f"({token})", token.join("''")):
        assert token not in TextRedactor(b"a").text(text)
        assert token[len(prefix) :] not in TextRedactor(b"a").text(text)


@pytest.mark.parametrize(
    "prefix", ["hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "AKIA"]
)
def test_a_cut_off_token_is_replaced(prefix: str) -> None:
    _check_cut_off(prefix)


@pytest.mark.parametrize(
    "prefix", ["ASIA", "sk-proj-", "sk-ant-", "sk-svcacct-", "nvapi-", "AIza", "npm_", "eyJ"]
)
def test_a_cut_off_token_of_a_service_is_replaced(prefix: str) -> None:
    _check_cut_off(prefix)


@pytest.mark.parametrize(
    "prefix", ["dckr_pat_", "dop_v1_", "r8_", "wandb_v1_", *(f"xox{x}-" for x in "abeprs")]
)
def test_a_cut_off_token_of_a_registry_or_chat_is_replaced(prefix: str) -> None:
    _check_cut_off(prefix)


def _check_cut_off(prefix: str) -> None:
    for end in ("", "...", "…"):
        assert f"{prefix}aB3dE5f" not in TextRedactor(b"a").text(f"clone with {prefix}aB3dE5f{end}")


_NAMES_OF_SETTINGS = """
token password passwd passphrase passcode secret secrets apikey credential credentials authtoken authkey psk
cookie api_key access_key private_key secret_key account_key encryption_key signing_key license_key
licence_key auth_key ssh_key wandb_key client_key shared_key master_key product_key activation_key host_key
storage_key session_key munge_key
"""
SECRET_SETTINGS = _NAMES_OF_SETTINGS.split()


@pytest.mark.parametrize("name", SECRET_SETTINGS)
def test_a_setting_whose_name_announces_a_secret_is_replaced(name: str) -> None:
    for text in (
        f"MY_{name.upper()}=quill77x",
        f'{{"my_{name}": "quill77x"}}',
        f"--my-{name.replace('_', '-')} quill77x",
    ):
        assert "quill77x" not in TextRedactor(b"a").text(text)


_NAMES_OF_PARAMETERS = """
X-Amz-Signature X-Goog-Credential X-Oss-Security-Token X-Cos-Signature AWSAccessKeyId GoogleAccessId
OSSAccessKeyId Signature Credential Policy Key-Pair-Id sig sign token access_token id_token refresh_token
auth_token key api_key subscription-key code auth password passwd secret jwt
"""
SIGNED = _NAMES_OF_PARAMETERS.split()


@pytest.mark.parametrize("parameter", SIGNED)
def test_a_parameter_that_signs_an_address_is_replaced(parameter: str) -> None:
    assert "quill77x" not in TextRedactor(b"a").text(
        f"GET https://x.invalid/data?part=1&{parameter}=quill77x"
    )


@pytest.mark.parametrize(("digits", "is_kept"), [("0123456789abcdef" * 2, False), ("0123401234" * 4, True)])
def test_a_long_hex_number_is_a_secret_from_six_different_digits_on(digits: str, is_kept: bool) -> None:
    assert (digits in TextRedactor(b"a").text(f"value {digits}")) == is_kept


@pytest.mark.parametrize(
    ("setting", "is_secret"),
    [
        ("API_TOKEN=abc123def", True),
        ("API_TOKEN=None", False),
        ("API_TOKEN=redacted-3fa9c1d2", False),
        ("TOKEN_PATH=abc123def", False),
        ("MAX_TOKEN=123456789", False),
        ("MAX_TOKEN=1234567890", True),
        ("LICENSE_KEY=ABCD1234", True),
        ("LICENSE_KEY=ABCD123", False),
        ("LICENSE_KEY=ABCDEFGH", False),
        ("123=abc123def", False),
    ],
)
def test_name_and_value_of_a_setting_decide(setting: str, is_secret: bool) -> None:
    assert (TextRedactor(b"a").text(setting) != setting) == is_secret
