-- Codes that let a person set a credential: after it was forgotten, or the first one.
-- A code is 80 random bits, so that its hash needs no salt and no cost.  An account
-- has one at most; five tries use it up, and so does its use.

CREATE TABLE reset_codes (
  account_id  uuid PRIMARY KEY REFERENCES accounts,
  code_sha256 bytea NOT NULL,
  tries       integer NOT NULL DEFAULT 0,
  created_at  timestamptz NOT NULL DEFAULT now(),
  expires_at  timestamptz NOT NULL,
  CONSTRAINT reset_codes_length CHECK (octet_length(code_sha256) = 32),
  CONSTRAINT reset_codes_tries CHECK (tries BETWEEN 0 AND 5)
) WITH (fillfactor = 70);
CREATE INDEX reset_codes_expired ON reset_codes (expires_at);

-- An attempt without a live code writes a row here, so that it takes as long as an
-- attempt that counts a try.
CREATE TABLE reset_misses (
  slot   integer PRIMARY KEY,
  misses bigint NOT NULL
) WITH (fillfactor = 50);

-- A deleted account keeps none.
CREATE FUNCTION reset_codes_erase() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  DELETE FROM reset_codes WHERE account_id = NEW.account_id;
  RETURN NULL;
END;
$$;
CREATE TRIGGER reset_codes_erase AFTER UPDATE OF status ON accounts
  FOR EACH ROW WHEN (NEW.status = 'DELETED' AND OLD.status <> 'DELETED')
  EXECUTE FUNCTION reset_codes_erase();

CREATE FUNCTION audit_reset_codes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM audit_write(ARRAY['account.reset_code_made'], NEW.account_id, NULL, NULL,
                      NULL, NULL, NULL, NULL);
  RETURN NULL;
END;
$$;
CREATE TRIGGER audit_reset_codes
  AFTER INSERT OR UPDATE OF code_sha256 ON reset_codes
  FOR EACH ROW EXECUTE FUNCTION audit_reset_codes();

DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['reset_codes_erase()',
                           'audit_reset_codes()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp',
                   f, current_schema());
  END LOOP;
END;
$$;

REVOKE EXECUTE ON FUNCTION reset_codes_erase(), audit_reset_codes() FROM PUBLIC;
