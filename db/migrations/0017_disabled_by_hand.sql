-- An account that is disabled, by whatever statement, is locked out: else enabling
-- it again would give the refresh tokens from before back.  The moment is later
-- than the last lockout, and no earlier than any session that is there, even where
-- the clock was set back.

CREATE FUNCTION accounts_lock_out() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF NEW.sessions_valid_after <= OLD.sessions_valid_after THEN
    NEW.sessions_valid_after := greatest(
      clock_timestamp(), OLD.sessions_valid_after + interval '1 us',
      (SELECT max(created_at) FROM auth_sessions
        WHERE account_id = OLD.account_id AND status = 'ACTIVE'));
  END IF;
  RETURN NEW;
END;
$$;

CREATE TRIGGER accounts_lock_out
  BEFORE UPDATE OF status ON accounts
  FOR EACH ROW WHEN (OLD.status = 'ACTIVE' AND NEW.status <> 'ACTIVE')
  EXECUTE FUNCTION accounts_lock_out();

-- Those that are disabled already.
UPDATE accounts a
   SET sessions_valid_after = greatest(clock_timestamp(), (
         SELECT max(created_at) FROM auth_sessions s
          WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'))
 WHERE status <> 'ACTIVE' AND (
         SELECT true FROM auth_sessions s
          WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'
            AND s.created_at > a.sessions_valid_after LIMIT 1);

-- As before, but no time in the row is so far away that adding to it fails.  A
-- sweep deletes many rows at once, and one row that fails would stop it for ever.
CREATE OR REPLACE FUNCTION auth_sessions_revoke() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  locked_out timestamptz;
  until      timestamptz;
BEGIN
  SELECT least(sessions_valid_after, clock_timestamp()) INTO locked_out
    FROM accounts WHERE account_id = OLD.account_id;
  IF locked_out >= greatest(OLD.created_at, OLD.used_at) THEN
    RETURN NULL;
  END IF;
  until := coalesce(least(OLD.access_until, '9999-01-01Z') + interval '5 minutes',
                    least(OLD.expires_at, clock_timestamp())
                    + access_token_life());
  IF until > clock_timestamp() - interval '1 hour' THEN
    INSERT INTO session_revocations (session_id, dies_at)
    VALUES (OLD.session_id, until);
  END IF;
  RETURN NULL;
END;
$$;

-- Whatever the search path of whoever writes.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['accounts_lock_out()',
                           'auth_sessions_revoke()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp',
                   f, current_schema());
  END LOOP;
END;
$$;

-- Triggers fire all the same.
REVOKE EXECUTE ON FUNCTION accounts_lock_out(), auth_sessions_revoke()
  FROM PUBLIC;
