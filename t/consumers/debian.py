"""Libraries of Debian, as t/node/consumers.mjs has those of npm.

usage: debian.py ISSUER AUDIENCE TOKEN CHANGED REFRESH
"""

import json
import re
import sys
import traceback
import urllib.request

import authlib.jose
import jose.jwt
import jwt

issuer, audience, token, changed, refresh = sys.argv[1:]
key_set = issuer + '/.well-known/jwks.json'
algorithms = ['RS256', 'ES256']


def keys():
    with urllib.request.urlopen(key_set) as answer:
        return json.load(answer)


def by_pyjwt(text, **more):
    key = jwt.PyJWKClient(key_set).get_signing_key_from_jwt(text).key
    return jwt.decode(text, key, algorithms=algorithms, issuer=issuer, **more)


def by_authlib(text, **more):
    options = {'iss': {'essential': True, 'value': issuer}}
    if 'audience' in more:
        options['aud'] = {'essential': True, 'value': more['audience']}
    library = authlib.jose.JsonWebToken(algorithms)
    claims = library.decode(text, authlib.jose.JsonWebKey.import_key_set(keys()),
                            claims_options=options)
    claims.validate()
    return claims


def by_python_jose(text, **more):
    return jose.jwt.decode(text, keys(), algorithms=algorithms, issuer=issuer, **more)


def tries(name, work):
    try:
        work()
        print('ok', name)
    except Exception:
        print('not ok', name)
        traceback.print_exc(file=sys.stdout)


def passes(consumer, text, kind, **more):
    assert consumer(text, **more)['token_type'] == kind


def refused(consumer, text, why, **more):
    try:
        consumer(text, **more)
    except Exception as error:
        assert re.search(why, f'{type(error).__name__} {error}', re.I), error
    else:
        raise AssertionError('it passes')


for name, consumer in {'PyJWT': by_pyjwt, 'Authlib': by_authlib,
                       'python-jose': by_python_jose}.items():
    tries(f'{name}: a token', lambda: passes(consumer, token, 'workspace',
                                             audience=audience))
    tries(f'{name}: one bit changed', lambda: refused(consumer, changed, 'signature',
                                                      audience=audience))
    tries(f'{name}: the refresh token', lambda: refused(consumer, refresh, 'aud',
                                                        audience=audience))
# Told of no audience, PyJWT refuses every token that has one.
tries('PyJWT, without an audience: the refresh token', lambda: refused(by_pyjwt, refresh, 'aud'))
tries('Authlib, without an audience: the refresh token passes',
      lambda: passes(by_authlib, refresh, 'refresh'))
print('done')
