-- Failed logins, counted per account and address, and per address in all.
--
-- Unlogged: a count is worth no disk flush, and after a crash everyone merely
-- starts at zero.  The account is present as an HMAC only, since what is typed
-- into that field is at times a password; the row of an address's total has
-- an empty one.

CREATE UNLOGGED TABLE login_attempts (
  account_hmac   bytea NOT NULL,
  address        inet NOT NULL,
  failures       integer NOT NULL,
  window_ends_at timestamptz NOT NULL,
  PRIMARY KEY (account_hmac, address),
  CONSTRAINT login_attempts_hmac_length
    CHECK (octet_length(account_hmac) IN (0, 32)),
  CONSTRAINT login_attempts_counts CHECK (failures >= 0)
) WITH (fillfactor = 50);

CREATE INDEX login_attempts_window ON login_attempts (window_ends_at);

-- Adds one to a count unless that would pass the limit; 0, or how many seconds
-- there are to wait.
CREATE FUNCTION login_attempt_count(
  counted_hmac bytea, counted_address inet, most integer, window_s bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  wait bigint;
BEGIN
  INSERT INTO login_attempts AS a
  VALUES (counted_hmac, counted_address, 1,
          now() + make_interval(secs => window_s))
  ON CONFLICT (account_hmac, address) DO UPDATE
     SET failures = CASE WHEN a.window_ends_at <= now() THEN 1
                         ELSE a.failures + 1 END,
         window_ends_at = CASE WHEN a.window_ends_at <= now()
                               THEN excluded.window_ends_at
                               ELSE a.window_ends_at END
   WHERE a.failures < most OR a.window_ends_at <= now();
  IF FOUND THEN
    RETURN 0;
  END IF;
  SELECT ceil(extract(epoch FROM window_ends_at - now())) INTO wait
    FROM login_attempts
   WHERE account_hmac = counted_hmac AND address = counted_address;
  RETURN greatest(coalesce(wait, 1), 1);
END;
$$;

-- Counts a login before it is tried: 0, or how many seconds there are to wait
-- (nothing is counted then).  Always the pair first, then the address, and the
-- tidying last and without waiting: so no two calls deadlock.
CREATE FUNCTION login_attempt_begin(
  tried_hmac bytea, tried_address inet, most integer, window_s bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  wait bigint;
BEGIN
  wait := login_attempt_count(tried_hmac, tried_address, most, window_s);
  IF wait > 0 THEN
    RETURN wait;
  END IF;
  wait := login_attempt_count('', tried_address, most * 10, window_s);
  IF wait > 0 THEN
    UPDATE login_attempts SET failures = greatest(failures - 1, 0)
     WHERE account_hmac = tried_hmac AND address = tried_address;
    RETURN wait;
  END IF;
  -- Each new row may take a few dead ones along, so the table stays as small
  -- as the traffic of one window.
  DELETE FROM login_attempts
   WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM login_attempts
            WHERE window_ends_at < now() - interval '1 minute'
            ORDER BY window_ends_at LIMIT 8
              FOR UPDATE SKIP LOCKED));
  RETURN 0;
END;
$$;

-- Takes a counted login back; one that succeeded clears its pair as well.
CREATE FUNCTION login_attempt_settle(
  tried_hmac bytea, tried_address inet, succeeded boolean)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF succeeded THEN
    DELETE FROM login_attempts
     WHERE account_hmac = tried_hmac AND address = tried_address;
  ELSE
    UPDATE login_attempts SET failures = greatest(failures - 1, 0)
     WHERE account_hmac = tried_hmac AND address = tried_address;
  END IF;
  UPDATE login_attempts SET failures = greatest(failures - 1, 0)
   WHERE account_hmac = '' AND address = tried_address;
END;
$$;
