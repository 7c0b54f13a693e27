-- What gateways have to refuse until the last access token concerned is dead:
-- sessions that were ended, and for an account all tokens from before a moment.
-- Triggers write it, so that no way of ending a session is missed.
--
-- Rows become visible in another order than they are written in.  Who reads on
-- from a snapshot misses none: xid is compared with the transactions that the
-- snapshot did not see, and neither waits for those that go on.

CREATE TABLE session_revocations (
  xid           xid8 NOT NULL DEFAULT pg_current_xact_id(),
  seq           bigint GENERATED ALWAYS AS IDENTITY,
  session_id    uuid,
  account_id    uuid,
  issued_before bigint, -- in seconds since 1970, as tokens have it
  revoked_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  dies_at       timestamptz NOT NULL,
  PRIMARY KEY (xid, seq),
  CONSTRAINT session_revocations_of_one CHECK (
    num_nonnulls(session_id, account_id) = 1
    AND (account_id IS NULL) = (issued_before IS NULL))
);
CREATE INDEX session_revocations_dead ON session_revocations (dies_at);

-- A crash, and the promotion of a standby, may give numbers of transactions
-- again, and empty an unlogged table: what was read before is then of another
-- mark.  So it is after a restart, which may be that of a restored backup.
CREATE UNLOGGED TABLE session_revocation_marks (
  started_at timestamptz PRIMARY KEY DEFAULT pg_postmaster_start_time(),
  mark       uuid NOT NULL DEFAULT gen_random_uuid()
);

CREATE FUNCTION session_revocation_mark() RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  found_mark uuid;
BEGIN
  LOOP
    SELECT mark INTO found_mark FROM session_revocation_marks
     WHERE started_at = pg_postmaster_start_time();
    EXIT WHEN FOUND;
    DELETE FROM session_revocation_marks
     WHERE started_at <> pg_postmaster_start_time();
    INSERT INTO session_revocation_marks DEFAULT VALUES
        ON CONFLICT DO NOTHING;
  END LOOP;
  RETURN found_mark;
END;
$$;

-- When the last access token of the session expires; null where that was not
-- written.  No index names it: a refresh does.
ALTER TABLE auth_sessions ADD COLUMN access_until timestamptz;

-- How long a token may be alive after a moment, at most: no setting lets an
-- access token live longer than a day, and no gateway is more than five
-- minutes lenient.
CREATE FUNCTION access_token_life() RETURNS interval
LANGUAGE sql IMMUTABLE AS $$ SELECT interval '1 day 5 minutes' $$;

-- Tokens tell the second of their issue.  The service gives the ones that it
-- issues after the moment at least the second that follows it, so those of
-- the moment's own second are older.  It is not to come, even where the clock
-- was set back.
CREATE FUNCTION revoke_tokens(of_account uuid, moment timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  moment := least(moment, clock_timestamp());
  INSERT INTO session_revocations (account_id, issued_before, dies_at)
  VALUES (of_account, floor(extract(epoch FROM moment)) + 1,
          moment + access_token_life());
END;
$$;

CREATE FUNCTION accounts_revoke() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  moment timestamptz := clock_timestamp();
BEGIN
  IF TG_OP = 'UPDATE' AND NEW.sessions_valid_after > OLD.sessions_valid_after
  THEN
    moment := least(moment, NEW.sessions_valid_after);
  END IF;
  PERFORM revoke_tokens(OLD.account_id, moment);

  -- Tokens issued since a lockout of this very second say the next one, too.
  IF date_trunc('second', OLD.sessions_valid_after)
     >= date_trunc('second', moment) THEN
    INSERT INTO session_revocations (session_id, dies_at)
    SELECT session_id, clock_timestamp() + access_token_life()
      FROM auth_sessions
     WHERE account_id = OLD.account_id AND status = 'ACTIVE'
       AND created_at > OLD.sessions_valid_after;
  END IF;
  RETURN NULL;
END;
$$;

CREATE TRIGGER accounts_revoke
  AFTER UPDATE OF sessions_valid_after, status ON accounts
  FOR EACH ROW
  WHEN (NEW.sessions_valid_after > OLD.sessions_valid_after
        OR (OLD.status = 'ACTIVE' AND NEW.status <> 'ACTIVE'))
  EXECUTE FUNCTION accounts_revoke();
CREATE TRIGGER accounts_revoke_deleted
  AFTER DELETE ON accounts
  FOR EACH ROW EXECUTE FUNCTION accounts_revoke();

-- An account that was locked out has an entry of its own, which covers its
-- sessions, however many: but for one that was refreshed meanwhile, by a
-- statement that did not see the lockout yet, or before the clock was set
-- back.  And tokens may be dead: an hour is left for clocks that disagree.
CREATE FUNCTION auth_sessions_revoke() RETURNS trigger
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
  until := coalesce(OLD.access_until + interval '5 minutes',
                    least(OLD.expires_at, clock_timestamp())
                    + access_token_life());
  IF until > clock_timestamp() - interval '1 hour' THEN
    INSERT INTO session_revocations (session_id, dies_at)
    VALUES (OLD.session_id, until);
  END IF;
  RETURN NULL;
END;
$$;

-- The columns are named: a rotation does not even look at it.
CREATE TRIGGER auth_sessions_revoke
  AFTER UPDATE OF status ON auth_sessions
  FOR EACH ROW WHEN (OLD.status = 'ACTIVE' AND NEW.status <> 'ACTIVE')
  EXECUTE FUNCTION auth_sessions_revoke();
CREATE TRIGGER auth_sessions_revoke_deleted
  AFTER DELETE ON auth_sessions
  FOR EACH ROW WHEN (OLD.status = 'ACTIVE')
  EXECUTE FUNCTION auth_sessions_revoke();

CREATE FUNCTION auth_sessions_revoke_all() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM revoke_tokens(account_id, clock_timestamp())
     FROM (SELECT DISTINCT account_id FROM auth_sessions
            WHERE status = 'ACTIVE') AS a;
  RETURN NULL;
END;
$$;

CREATE TRIGGER auth_sessions_revoke_all
  BEFORE TRUNCATE ON auth_sessions
  FOR EACH STATEMENT EXECUTE FUNCTION auth_sessions_revoke_all();

-- Whatever the search path of whoever writes.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY[
    'session_revocation_mark()', 'revoke_tokens(uuid, timestamptz)',
    'accounts_revoke()', 'auth_sessions_revoke()',
    'auth_sessions_revoke_all()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp',
                   f, current_schema());
  END LOOP;
END;
$$;

-- Accounts that were locked out a short while ago.
SELECT revoke_tokens(account_id, sessions_valid_after)
  FROM accounts WHERE sessions_valid_after > now() - access_token_life();
