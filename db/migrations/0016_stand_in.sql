-- The hash of another account stands in for the hash of an account that does not
-- exist.  The choice is keyed by a secret of its own, which no rotation of signing
-- keys changes: else a name whose login takes another time after a rotation would
-- be known not to exist.  Of several secrets, which data from elsewhere may bring
-- along, the oldest is in use.

CREATE TABLE stand_in_secret (
  made_at timestamptz NOT NULL DEFAULT now(),
  secret  bytea NOT NULL CHECK (octet_length(secret) = 32)
);

INSERT INTO stand_in_secret (secret)
VALUES (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text
                          || gen_random_uuid()::text, 'UTF8')));
