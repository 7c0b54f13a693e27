# Authlib as a client: a token in three ways, and calls of routes of the gateway.
#
# usage: clients.py ISSUER CLIENT_ID SECRET KEY.pem ROUTE...

import json
import sys
import time
import urllib.request

from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc7523 import PrivateKeyJWT

issuer, client_id, secret, key_file, *routes = sys.argv[1:]
with urllib.request.urlopen(issuer + "/.well-known/oauth-authorization-server") as answer:
    endpoint = json.load(answer)["token_endpoint"]
with open(key_file, encoding="ascii") as file:
    key = file.read()


def session(method):
    if method != "private_key_jwt":
        return OAuth2Session(client_id, secret, token_endpoint_auth_method=method)
    made = OAuth2Session(client_id, key, token_endpoint_auth_method=method)
    # Authlib's own exp is an hour ahead; an assertion may live for five minutes.
    made.register_client_auth_method(
        PrivateKeyJWT(endpoint, {"exp": int(time.time()) + 60}, alg="ES256")
    )
    return made


for name in ("client_secret_basic", "client_secret_post", "private_key_jwt"):
    try:
        client = session(name)
        client.fetch_token(endpoint, grant_type="client_credentials")
        told = [client.get(issuer + route).status_code for route in routes]
        print("ok" if set(told) == {200} else "not ok", "Authlib:", name, *told)
    except Exception as error:  # whatever it is, it is told
        print("not ok", "Authlib:", name, repr(error))
print("done")
