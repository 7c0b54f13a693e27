-- Until a change is committed, refreshes do not see it and go on issuing
-- tokens.  So its moment is that of the commit: a deferred trigger takes it,
-- as the last thing that a transaction does.
--
-- A lockout's moment is in the account's row, and tokens of sessions opened
-- since are good.  The sessions that it ended are named one by one, if they may
-- have issued tokens since: they were refreshed, or the moment is from before
-- the row was locked, which selections wait for, and any token is alive.

CREATE OR REPLACE FUNCTION accounts_revoke() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  moment timestamptz := clock_timestamp();
  second timestamptz := date_trunc('second', moment);
  is_now accounts;
  twice  boolean;
BEGIN
  SELECT * INTO is_now FROM accounts WHERE account_id = OLD.account_id;
  IF is_now.sessions_valid_after > OLD.sessions_valid_after THEN
    moment := least(moment, is_now.sessions_valid_after);
  END IF;
  PERFORM revoke_tokens(OLD.account_id, moment);

  -- Tokens issued since a lockout of this very second say the next one, too.
  twice := date_trunc('second', OLD.sessions_valid_after)
           >= date_trunc('second', moment);
  IF twice OR second > date_trunc('second', moment) THEN
    INSERT INTO session_revocations (session_id, dies_at)
    SELECT session_id, clock_timestamp() + access_token_life()
      FROM auth_sessions
     WHERE account_id = OLD.account_id AND status = 'ACTIVE'
       AND created_at > OLD.sessions_valid_after
       AND (created_at <= is_now.sessions_valid_after
            OR is_now.status <> 'ACTIVE')
       AND (twice OR used_at >= date_trunc('second', moment)
            OR (moment <= now()
                AND (access_until > second - interval '1 hour') IS NOT FALSE));
  END IF;
  RETURN NULL;
END;
$$;

DROP TRIGGER accounts_revoke ON accounts;
DROP TRIGGER accounts_revoke_deleted ON accounts;
CREATE CONSTRAINT TRIGGER accounts_revoke
  AFTER UPDATE OF sessions_valid_after, status ON accounts
  DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW
  WHEN (NEW.sessions_valid_after > OLD.sessions_valid_after
        OR (OLD.status = 'ACTIVE' AND NEW.status <> 'ACTIVE'))
  EXECUTE FUNCTION accounts_revoke();
CREATE CONSTRAINT TRIGGER accounts_revoke_deleted
  AFTER DELETE ON accounts
  DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION accounts_revoke();

-- Of the table that is truncated, which may be one partition; all of them are,
-- with the whole, and each account is told once.
CREATE OR REPLACE FUNCTION auth_sessions_revoke_all() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  EXECUTE format(
    'SELECT revoke_tokens(account_id, clock_timestamp()) FROM ('
    '  SELECT account_id FROM %s WHERE status = ''ACTIVE'''
    '  EXCEPT SELECT account_id FROM session_revocations'
    '          WHERE xid = pg_current_xact_id()'
    '            AND issued_before > extract(epoch FROM clock_timestamp())'
    ') AS a', TG_RELID::regclass);
  RETURN NULL;
END;
$$;

-- A trigger for each statement is not inherited.
DO $$
DECLARE
  part regclass;
  f    regprocedure;
BEGIN
  FOR part IN SELECT inhrelid FROM pg_inherits
               WHERE inhparent = 'auth_sessions'::regclass
  LOOP
    EXECUTE format('CREATE OR REPLACE TRIGGER auth_sessions_revoke_all '
                   'BEFORE TRUNCATE ON %s FOR EACH STATEMENT '
                   'EXECUTE FUNCTION auth_sessions_revoke_all()', part);
  END LOOP;

  -- Whatever the search path of whoever writes.
  FOREACH f IN ARRAY ARRAY['accounts_revoke()',
                           'auth_sessions_revoke_all()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp',
                   f, current_schema());
  END LOOP;
END;
$$;

-- As before: a function that is replaced keeps its rights.
REVOKE EXECUTE ON FUNCTION accounts_revoke(), auth_sessions_revoke_all()
  FROM PUBLIC;
