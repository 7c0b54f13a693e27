-- Second factors: TOTP secrets (encrypted by the service), passkeys, recovery codes.
-- A factor counts from its confirmation on; accounts.second_factor follows, so that
-- whoever locks the account's row knows whether it has one.

ALTER TABLE accounts
  ADD COLUMN second_factor   boolean NOT NULL DEFAULT false,
  ADD COLUMN factor_required boolean NOT NULL DEFAULT false;

-- How a session was authenticated (RFC 8176): bits, 1 pwd, 2 otp, 4 hwk, 8 swk,
-- 16 user, 32 mfa.  Null: by the credential, when the session was opened.
ALTER TABLE auth_sessions
  ADD COLUMN amr              bigint,
  ADD COLUMN authenticated_at timestamptz;

CREATE TABLE factors (
  factor_id     uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  account_id    uuid NOT NULL REFERENCES accounts,
  factor_type   text NOT NULL,
  factor_name   text NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT now(),
  confirmed_at  timestamptz,
  used_at       timestamptz,
  -- totp
  key_id        text,
  secret        bytea,
  last_step     bigint NOT NULL DEFAULT 0,
  -- passkey
  credential_id bytea UNIQUE,
  public_key    bytea,
  sign_count    bigint NOT NULL DEFAULT 0,
  transports    integer NOT NULL DEFAULT 0,
  may_sync      boolean NOT NULL DEFAULT false,
  synced        boolean NOT NULL DEFAULT false,
  count_fell_at timestamptz,
  CONSTRAINT factors_name CHECK (char_length(factor_name) BETWEEN 1 AND 64),
  CONSTRAINT factors_whole CHECK (
    CASE factor_type
    WHEN 'totp' THEN num_nulls(key_id, secret) = 0
                 AND num_nulls(credential_id, public_key) = 2
    WHEN 'passkey' THEN num_nulls(key_id, secret) = 2
                    AND num_nulls(credential_id, public_key) = 0
    ELSE false END)
);
CREATE INDEX factors_account ON factors (account_id);
CREATE INDEX factors_open ON factors (created_at) WHERE confirmed_at IS NULL;

-- 80 random bits each, so that their hashes need no salt and no cost.
CREATE TABLE recovery_codes (
  account_id  uuid NOT NULL REFERENCES accounts,
  code_sha256 bytea NOT NULL,
  used_at     timestamptz,
  PRIMARY KEY (account_id, code_sha256),
  CONSTRAINT recovery_codes_length CHECK (octet_length(code_sha256) = 32)
);

-- What is between two calls: a login that still needs a factor, or the challenge for
-- a passkey.  The stamp is of the account's credential and last lockout: a change of
-- either ends the token.
CREATE TABLE factor_tokens (
  token_sha256 bytea PRIMARY KEY,
  purpose      text NOT NULL,
  account_id   uuid REFERENCES accounts,
  session_id   uuid,
  challenge    bytea,
  stamp        bytea,
  tries        integer NOT NULL DEFAULT 0,
  expires_at   timestamptz NOT NULL,
  CONSTRAINT factor_tokens_purpose CHECK (
    purpose IN ('verify', 'enroll', 'register', 'passkey_login', 'step_up')),
  CONSTRAINT factor_tokens_digest CHECK (octet_length(token_sha256) = 32)
) WITH (fillfactor = 70);
CREATE INDEX factor_tokens_expired ON factor_tokens (expires_at);
CREATE INDEX factor_tokens_account ON factor_tokens (account_id)
  WHERE account_id IS NOT NULL;

-- The times of an account's last ten failures, oldest first.  Logged, since a crash
-- of the server would give everybody ten more tries.
CREATE TABLE factor_failures (
  account_id uuid PRIMARY KEY REFERENCES accounts,
  failed_at  timestamptz[] NOT NULL
) WITH (fillfactor = 50);

-- The identifier of an account towards authenticators: random, since authenticators
-- show it to whoever holds them.
CREATE TABLE passkey_users (
  account_id uuid PRIMARY KEY REFERENCES accounts,
  handle     bytea NOT NULL UNIQUE,
  CONSTRAINT passkey_users_length CHECK (octet_length(handle) = 32)
);

-- The account's row is locked by whoever changes its factors.
CREATE FUNCTION factors_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  account uuid := coalesce(NEW.account_id, OLD.account_id);
  counts  boolean := EXISTS (SELECT FROM factors f WHERE f.account_id = account
                                AND f.confirmed_at IS NOT NULL);
BEGIN
  UPDATE accounts a SET second_factor = counts
   WHERE a.account_id = account AND a.second_factor <> counts;
  IF NOT counts THEN
    DELETE FROM recovery_codes r WHERE r.account_id = account;
  END IF;
  IF TG_OP = 'DELETE' THEN
    IF OLD.confirmed_at IS NOT NULL THEN
      PERFORM audit_write(ARRAY['account.factor_removed'], account, NULL, NULL, NULL,
                          NULL, NULL, NULL);
    END IF;
  ELSIF NEW.confirmed_at IS NOT NULL
        AND (TG_OP = 'INSERT' OR OLD.confirmed_at IS NULL) THEN
    PERFORM audit_write(ARRAY['account.factor_added'], account, NULL, NULL, NULL,
                        NULL, NULL, NULL);
  END IF;
  RETURN NULL;
END;
$$;
CREATE TRIGGER factors_changed
  AFTER INSERT OR DELETE OR UPDATE OF confirmed_at ON factors
  FOR EACH ROW EXECUTE FUNCTION factors_changed();

-- TG_ARGV[0] is the event.
CREATE FUNCTION audit_factors() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM audit_write(ARRAY[TG_ARGV[0]], NEW.account_id, NULL, NULL, NULL, NULL, NULL,
                      NULL);
  RETURN NULL;
END;
$$;
CREATE TRIGGER audit_factors_count_fell AFTER UPDATE OF count_fell_at ON factors
  FOR EACH ROW WHEN (NEW.count_fell_at IS DISTINCT FROM OLD.count_fell_at)
  EXECUTE FUNCTION audit_factors('account.passkey_count_fell');
CREATE TRIGGER audit_recovery_code_used AFTER UPDATE OF used_at ON recovery_codes
  FOR EACH ROW WHEN (NEW.used_at IS NOT NULL AND OLD.used_at IS NULL)
  EXECUTE FUNCTION audit_factors('account.recovery_code_used');
CREATE TRIGGER audit_factor_required AFTER UPDATE OF factor_required ON accounts
  FOR EACH ROW WHEN (NEW.factor_required AND NOT OLD.factor_required)
  EXECUTE FUNCTION audit_factors('account.factor_required');
CREATE TRIGGER audit_factor_optional AFTER UPDATE OF factor_required ON accounts
  FOR EACH ROW WHEN (OLD.factor_required AND NOT NEW.factor_required)
  EXECUTE FUNCTION audit_factors('account.factor_optional');

-- Once for all the codes of a statement.
CREATE FUNCTION audit_recovery_codes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM audit_write(ARRAY['account.recovery_codes_made'], account_id, NULL, NULL,
                      NULL, NULL, NULL, NULL)
     FROM (SELECT DISTINCT account_id FROM made) AS m;
  RETURN NULL;
END;
$$;
CREATE TRIGGER audit_recovery_codes AFTER INSERT ON recovery_codes
  REFERENCING NEW TABLE AS made
  FOR EACH STATEMENT EXECUTE FUNCTION audit_recovery_codes();

-- A deleted account keeps none.
CREATE FUNCTION factors_erase() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  DELETE FROM factors WHERE account_id = NEW.account_id;
  DELETE FROM recovery_codes WHERE account_id = NEW.account_id;
  DELETE FROM factor_tokens WHERE account_id = NEW.account_id;
  DELETE FROM factor_failures WHERE account_id = NEW.account_id;
  DELETE FROM passkey_users WHERE account_id = NEW.account_id;
  RETURN NULL;
END;
$$;
CREATE TRIGGER factors_erase AFTER UPDATE OF status ON accounts
  FOR EACH ROW WHEN (NEW.status = 'DELETED' AND OLD.status <> 'DELETED')
  EXECUTE FUNCTION factors_erase();

DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY[
    'factors_changed()', 'audit_factors()', 'audit_recovery_codes()',
    'factors_erase()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp',
                   f, current_schema());
  END LOOP;
END;
$$;

REVOKE EXECUTE
  ON FUNCTION factors_changed(), audit_factors(), audit_recovery_codes(),
              factors_erase()
  FROM PUBLIC;
