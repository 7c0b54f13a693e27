-- Clients: accounts of type SYSTEM that get tokens with a secret or a signed
-- assertion (RFC 6749 section 4.4, RFC 7523), and the scopes that they may have.

CREATE TABLE client_scopes (
  account_id uuid NOT NULL REFERENCES accounts,
  scope      text COLLATE "C" NOT NULL,
  PRIMARY KEY (account_id, scope),
  CONSTRAINT client_scopes_known CHECK (scope IN (
    'people:read', 'people:write', 'places:read', 'places:write',
    'credentials:write', 'operators:write', 'audit:read'))
);

-- A secret is 256 random bits, so that its hash needs no salt and no cost.
CREATE TABLE client_secrets (
  secret_id     uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  account_id    uuid NOT NULL REFERENCES accounts,
  secret_sha256 bytea NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT now(),
  expires_at    timestamptz,
  CONSTRAINT client_secrets_length CHECK (octet_length(secret_sha256) = 32)
);
CREATE INDEX client_secrets_account ON client_secrets (account_id);

-- jwk is a public key as JSON (RFC 7517).
CREATE TABLE client_keys (
  account_id uuid NOT NULL REFERENCES accounts,
  kid        text COLLATE "C" NOT NULL,
  jwk        text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (account_id, kid),
  CONSTRAINT client_keys_bounded CHECK (
    octet_length(kid) BETWEEN 1 AND 255 AND octet_length(jwk) <= 4096)
);

-- Assertions that were used: each is accepted once.
CREATE TABLE client_assertions (
  jti_sha256 bytea PRIMARY KEY,
  dies_at    timestamptz NOT NULL,
  CONSTRAINT client_assertions_length CHECK (octet_length(jti_sha256) = 32)
);
CREATE INDEX client_assertions_dead ON client_assertions (dies_at);

-- A client has two live secrets and four keys at most.  The account's row is the
-- lock: two additions at the same time are counted one after the other.
CREATE FUNCTION clients_limit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  kind text;
BEGIN
  SELECT account_type INTO kind FROM accounts
   WHERE account_id = NEW.account_id FOR NO KEY UPDATE;
  IF kind IS DISTINCT FROM 'SYSTEM' THEN
    RAISE EXCEPTION 'the account is not a client'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'clients_are_system';
  ELSIF TG_TABLE_NAME = 'client_secrets' AND (
      SELECT count(*) FROM client_secrets WHERE account_id = NEW.account_id
         AND (expires_at IS NULL OR expires_at > now())) > 2 THEN
    RAISE EXCEPTION 'a client has at most 2 live secrets'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'secrets_per_client';
  ELSIF TG_TABLE_NAME = 'client_keys' AND (
      SELECT count(*) FROM client_keys WHERE account_id = NEW.account_id) > 4 THEN
    RAISE EXCEPTION 'a client has at most 4 keys'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'keys_per_client';
  END IF;
  RETURN NULL;
END;
$$;

CREATE TRIGGER clients_limit AFTER INSERT OR UPDATE ON client_scopes
  FOR EACH ROW EXECUTE FUNCTION clients_limit();
CREATE TRIGGER clients_limit AFTER INSERT OR UPDATE ON client_secrets
  FOR EACH ROW EXECUTE FUNCTION clients_limit();
CREATE TRIGGER clients_limit AFTER INSERT OR UPDATE ON client_keys
  FOR EACH ROW EXECUTE FUNCTION clients_limit();

-- Tokens that were issued for what is taken away end: with this lockout, at the
-- gateways within a second.
CREATE FUNCTION clients_lock_out() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE accounts SET sessions_valid_after = greatest(
           clock_timestamp(), sessions_valid_after + interval '1 us')
   WHERE account_id = OLD.account_id;
  RETURN NULL;
END;
$$;

CREATE TRIGGER clients_lock_out AFTER UPDATE OR DELETE ON client_scopes
  FOR EACH ROW EXECUTE FUNCTION clients_lock_out();
CREATE TRIGGER clients_lock_out AFTER UPDATE OR DELETE ON client_secrets
  FOR EACH ROW EXECUTE FUNCTION clients_lock_out();
CREATE TRIGGER clients_lock_out AFTER UPDATE OR DELETE ON client_keys
  FOR EACH ROW EXECUTE FUNCTION clients_lock_out();

-- Until the lockout is committed, tokens are issued as before.  If a second ended
-- meanwhile, they name a later one, so the moment becomes that of the commit.
CREATE FUNCTION clients_lock_out_late() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE accounts SET sessions_valid_after = clock_timestamp()
   WHERE account_id = NEW.account_id AND sessions_valid_after >= now()
     AND sessions_valid_after < date_trunc('second', clock_timestamp());
  RETURN NULL;
END;
$$;

CREATE CONSTRAINT TRIGGER clients_lock_out_late
  AFTER UPDATE OF sessions_valid_after, status ON accounts
  DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.account_type = 'SYSTEM'
                     AND NEW.sessions_valid_after > OLD.sessions_valid_after)
  EXECUTE FUNCTION clients_lock_out_late();

-- A deleted account can get no token, and nothing of it is kept.
CREATE FUNCTION clients_erase() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  DELETE FROM client_scopes WHERE account_id = NEW.account_id;
  DELETE FROM client_secrets WHERE account_id = NEW.account_id;
  DELETE FROM client_keys WHERE account_id = NEW.account_id;
  RETURN NULL;
END;
$$;

CREATE TRIGGER clients_erase AFTER UPDATE OF status ON accounts
  FOR EACH ROW WHEN (NEW.status = 'DELETED' AND OLD.status <> 'DELETED'
                     AND NEW.account_type = 'SYSTEM')
  EXECUTE FUNCTION clients_erase();

CREATE FUNCTION audit_clients() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM audit_write(
    ARRAY['client.' || TG_ARGV[0] || CASE TG_OP WHEN 'INSERT' THEN '_added'
          WHEN 'DELETE' THEN '_removed' ELSE '_changed' END],
    (to_jsonb(coalesce(NEW, OLD))->>'account_id')::uuid, NULL, NULL, NULL, NULL,
    NULL, NULL);
  RETURN NULL;
END;
$$;

CREATE TRIGGER audit_clients AFTER INSERT OR UPDATE OR DELETE ON client_scopes
  FOR EACH ROW EXECUTE FUNCTION audit_clients('scope');
CREATE TRIGGER audit_clients AFTER INSERT OR UPDATE OR DELETE ON client_secrets
  FOR EACH ROW EXECUTE FUNCTION audit_clients('secret');
CREATE TRIGGER audit_clients AFTER INSERT OR UPDATE OR DELETE ON client_keys
  FOR EACH ROW EXECUTE FUNCTION audit_clients('key');

-- How many seconds there are to wait after too many failures of this pair or of
-- this address; 0 for none.  Counts nothing.
CREATE FUNCTION login_attempt_wait(
  tried_hmac bytea, tried_address inet, most integer)
RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT coalesce(max(greatest(1, ceil(extract(epoch FROM
                      window_ends_at - now())))), 0)::bigint
    FROM login_attempts
   WHERE address = tried_address AND window_ends_at > now()
     AND ((account_hmac = tried_hmac AND failures >= most)
          OR (account_hmac = '' AND failures >= most * 10))
     AND account_hmac IN (tried_hmac, '')
$$;

-- Whatever the search path of whoever writes.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['clients_limit()', 'clients_lock_out()',
                           'clients_lock_out_late()', 'clients_erase()',
                           'audit_clients()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp',
                   f, current_schema());
  END LOOP;
END;
$$;

REVOKE EXECUTE ON FUNCTION clients_lock_out(), clients_lock_out_late(),
  clients_erase(), audit_clients() FROM PUBLIC;
