#!/usr/bin/env python3
"""Prints template.yaml as CloudFormation gets it, after the SAM transform.

usage: deploy/transform.py [--deployment]

The transform is AWS's own (aws-sam-translator, which comes with the SAM command
line) and needs no account. The code's place is a stand-in. AlwaysDeploy gives
each transform another deployment: --deployment prints nothing but its id, and
the template is printed without it, so that it can be compared.
"""

import hashlib
import json
import logging
import os
import pathlib
import re
import sys

os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")
logging.disable(logging.CRITICAL)

from samtranslator.translator.transform import transform  # noqa: E402
from samtranslator.yaml_helper import yaml_parse  # noqa: E402


class NoManagedPolicies:
    """The template names no managed policy of AWS, so none is looked up."""

    def load(self):
        return {}


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    source = (root / "template.yaml").read_bytes()
    template = yaml_parse(source.decode())
    template["Globals"]["Function"]["CodeUri"] = "s3://bucket/key"
    transformed = transform(template, {}, NoManagedPolicies())
    # So that a test in Go can tell whether it reads an old one.
    transformed["Metadata"] = {"Source": hashlib.sha256(source).hexdigest()}
    text = json.dumps(transformed, indent=1, sort_keys=True)
    deployment = re.compile(r"(ApiDeployment|deployment id: )([0-9a-f]+)")
    if sys.argv[1:] == ["--deployment"]:
        print(deployment.search(text).group(2))
    else:
        print(deployment.sub(r"\1", text))


if __name__ == "__main__":
    main()
