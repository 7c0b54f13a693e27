-- Calls of programs with an idempotency key, and their answers, for 24 hours: a
-- repeat gets the first answer.  Keys and calls are kept as SHA-256.  The body is
-- null if it held a secret.  The deletion of an account erases the answers about it.

CREATE TABLE client_calls (
  client_id   uuid NOT NULL,
  key_sha256  bytea NOT NULL,
  call_sha256 bytea NOT NULL,
  called_at   timestamptz NOT NULL DEFAULT now(),
  status      integer NOT NULL,
  location    text,
  body        text,
  account_id  uuid,
  erased      boolean NOT NULL DEFAULT false,
  PRIMARY KEY (client_id, key_sha256),
  CONSTRAINT client_calls_digests CHECK (
    octet_length(key_sha256) = 32 AND octet_length(call_sha256) = 32)
);
CREATE INDEX client_calls_time ON client_calls (called_at);
CREATE INDEX client_calls_account ON client_calls (account_id)
  WHERE account_id IS NOT NULL;

CREATE FUNCTION client_calls_erase() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE client_calls SET body = NULL, location = NULL, erased = true
   WHERE account_id = NEW.account_id;
  RETURN NULL;
END;
$$;
CREATE TRIGGER client_calls_erase AFTER UPDATE OF status ON accounts
  FOR EACH ROW WHEN (NEW.status = 'DELETED' AND OLD.status <> 'DELETED')
  EXECUTE FUNCTION client_calls_erase();

REVOKE EXECUTE ON FUNCTION client_calls_erase() FROM PUBLIC;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION client_calls_erase SET search_path = %I, pg_temp',
                 current_schema());
END;
$$;
