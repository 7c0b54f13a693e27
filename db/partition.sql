-- Makes auth_sessions a table of partitions, by hash of the session's id, beside the
-- running service.  Run as a superuser, straight at the server (no pooler):
--
--   psql -d platform -v partitions=16 -f db/partition.sql
--
-- From the first step on every write to the table is repeated in the new table.  The
-- new table then gets the existing rows, some blocks at a time, is compared with the
-- old table, and takes its place.  No step waits for a lock longer than 0.2 s: it
-- gives up and tries again.  If the script ends early, run it again: it goes on.
-- Until the last step nothing has changed, and this undoes it:
--
--   DROP TRIGGER auth_sessions_mirror ON auth_sessions;
--   DROP SCHEMA partitioned CASCADE;

\set ON_ERROR_STOP on
\if :{?partitions}
\else
  \set partitions 16
\endif
\if :{?pause_ms}
\else
  \set pause_ms 10
\endif
SET client_min_messages = notice;
SET search_path = public, pg_temp;
SET statement_timeout = 0;
SET lock_timeout = 0;
-- The swap waits for the disk, and so for all earlier writes.
SET synchronous_commit = off;
-- The copied rows were checked when they were written.
SET session_replication_role = replica;
SELECT set_config('partition.count', :'partitions', false),
       set_config('partition.pause_ms', :'pause_ms', false) \g /dev/null

-- The lock of the sweep: meanwhile it deletes no row that is being copied.
SELECT pg_advisory_lock(7236589412357) \g /dev/null

CREATE PROCEDURE pg_temp.patiently(step text, command text) LANGUAGE plpgsql AS $$
BEGIN
  FOR attempt IN 1 .. 300 LOOP
    BEGIN
      PERFORM set_config('lock_timeout', '200ms', true),
              set_config('synchronous_commit', 'on', true);
      EXECUTE command;
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      RAISE NOTICE '%: a lock is taken, attempt %', step, attempt;
    END;
    COMMIT;
    PERFORM pg_sleep(1);
  END LOOP;
  RAISE EXCEPTION '%: no lock within 300 attempts; run it again', step;
END;
$$;

-- -- a table like it, empty, and a trigger that repeats what is written

CREATE FUNCTION pg_temp.prepare() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  old   regclass := 'public.auth_sessions';
  count integer := current_setting('partition.count');
  class pg_class;
  line  text;
BEGIN
  SELECT * INTO class FROM pg_class WHERE oid = old;
  IF class.relkind = 'p' THEN
    RAISE EXCEPTION 'auth_sessions has partitions already';
  ELSIF EXISTS (SELECT FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
                 WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = old) THEN
    RAISE EXCEPTION 'a view reads auth_sessions: drop it, and create it again afterwards';
  ELSIF to_regclass('partitioned.auth_sessions') IS NOT NULL THEN
    RETURN;
  END IF;

  EXECUTE format('CREATE SCHEMA partitioned AUTHORIZATION %s', class.relowner::regrole);
  CREATE TABLE partitioned.auth_sessions (LIKE public.auth_sessions
      INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION INCLUDING COMMENTS)
    PARTITION BY HASH (session_id);
  FOR line IN
    SELECT format('CREATE TABLE partitioned.auth_sessions_p%s
                     PARTITION OF partitioned.auth_sessions
                     FOR VALUES WITH (MODULUS %s, REMAINDER %s) %s',
                  to_char(n, 'FM000'), count, n,
                  'WITH (' || array_to_string(class.reloptions, ', ') || ')')
      FROM generate_series(0, count - 1) AS n
  LOOP
    EXECUTE line;
  END LOOP;
  -- First, because the functions of its indexes run as the table's owner.
  FOR line IN SELECT relid FROM pg_partition_tree('partitioned.auth_sessions') LOOP
    EXECUTE format('ALTER TABLE %s OWNER TO %s', line, class.relowner::regrole);
  END LOOP;
  FOR line IN
    SELECT format('ALTER TABLE partitioned.auth_sessions ADD CONSTRAINT %I %s', conname,
                  replace(pg_get_constraintdef(oid), ' NOT VALID', ''))
      FROM pg_constraint WHERE conrelid = old AND contype IN ('p', 'u', 'f', 'c')
    UNION ALL
    SELECT replace(pg_get_indexdef(indexrelid), ' ON public.', ' ON partitioned.')
      FROM pg_index WHERE indrelid = old AND indexrelid NOT IN (
           SELECT conindid FROM pg_constraint WHERE conrelid = old)
    UNION ALL
    SELECT format('GRANT %s ON partitioned.auth_sessions TO %s', privilege_type,
                  CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END)
      FROM aclexplode(class.relacl)
  LOOP
    EXECUTE line;
  END LOOP;

  -- The new table does not have triggers yet, because the old table's triggers
  -- have run for these rows.
  EXECUTE format($mirror$
    CREATE FUNCTION partitioned.mirror() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
    BEGIN
      IF TG_OP = 'DELETE' THEN
        DELETE FROM partitioned.auth_sessions WHERE session_id = OLD.session_id;
      ELSE
        INSERT INTO partitioned.auth_sessions SELECT NEW.*
            ON CONFLICT (session_id) DO UPDATE SET %s;
      END IF;
      RETURN NULL;
    END;
    $body$ $mirror$,
    (SELECT string_agg(format('%1$I = excluded.%1$I', attname), ', ')
       FROM pg_attribute WHERE attrelid = old AND attnum > 0 AND NOT attisdropped));
  EXECUTE format('ALTER FUNCTION partitioned.mirror() OWNER TO %s',
                 class.relowner::regrole);
  REVOKE EXECUTE ON FUNCTION partitioned.mirror() FROM PUBLIC;
  CREATE TRIGGER auth_sessions_mirror
    AFTER INSERT OR UPDATE OR DELETE ON public.auth_sessions
    FOR EACH ROW EXECUTE FUNCTION partitioned.mirror();
END;
$$;

-- -- the rows: a write meanwhile either finds the copy, or is found by it
--
-- These two run as the owner of the tables, because indexes, constraints and types
-- may call the owner's functions.

CREATE FUNCTION pg_temp.copy(low bigint, past bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO partitioned.auth_sessions
  SELECT * FROM public.auth_sessions
   WHERE ctid >= format('(%s,0)', low)::tid AND ctid < format('(%s,0)', past)::tid
      ON CONFLICT (session_id) DO NOTHING;
  SET CONSTRAINTS ALL IMMEDIATE;    -- not at the commit, which is a superuser's
  RETURN 0;
END;
$$;

-- The number of rows without an equal, in one snapshot.  By a subquery, because a
-- join might read the whole new table each time.
CREATE FUNCTION pg_temp.compare(low bigint, past bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT count(*) FROM public.auth_sessions o
           WHERE o.ctid >= format('(%s,0)', low)::tid
             AND o.ctid < format('(%s,0)', past)::tid
             AND (SELECT ROW(n.*) IS DISTINCT FROM ROW(o.*)
                    FROM partitioned.auth_sessions n
                   WHERE n.session_id = o.session_id) IS NOT FALSE);
END;
$$;

SELECT format('ALTER FUNCTION pg_temp.%s(bigint, bigint) OWNER TO %s', name,
              relowner::regrole)
  FROM pg_class, unnest(ARRAY['copy', 'compare']) AS name
 WHERE oid = 'public.auth_sessions'::regclass \gexec

CREATE PROCEDURE pg_temp.throughout(step text) LANGUAGE plpgsql AS $$
DECLARE
  blocks bigint := pg_relation_size('public.auth_sessions')
                   / current_setting('block_size')::bigint;
  wrong  bigint := 0;
  found  bigint;
BEGIN
  FOR low IN 0 .. blocks BY 64 LOOP
    EXECUTE format('SELECT pg_temp.%I($1, $2)', step) INTO found USING low, low + 64;
    wrong := wrong + found;
    COMMIT;
    PERFORM pg_sleep(current_setting('partition.pause_ms')::float / 1000);
  END LOOP;
  IF wrong > 0 THEN
    RAISE EXCEPTION '% of the rows differ', wrong;
  END IF;
END;
$$;

-- -- it takes its place, with whatever refers to the table

CREATE FUNCTION pg_temp.swap() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  links text[];
  line  text;
BEGIN
  LOCK TABLE public.auth_sessions, public.rotated_tokens IN ACCESS EXCLUSIVE MODE;
  DROP TRIGGER auth_sessions_mirror ON public.auth_sessions;
  DROP FUNCTION partitioned.mirror();
  FOR line IN
    SELECT replace(pg_get_triggerdef(oid), ' ON public.', ' ON partitioned.')
      FROM pg_trigger
     WHERE tgrelid = 'public.auth_sessions'::regclass AND NOT tgisinternal
    UNION ALL
    -- Statement triggers are not inherited, and a single partition may be truncated.
    SELECT replace(pg_get_triggerdef(t.oid), ' ON public.auth_sessions ',
                   format(' ON %s ', inhrelid::regclass))
      FROM pg_trigger t, pg_inherits
     WHERE tgrelid = 'public.auth_sessions'::regclass
       AND tgname = 'auth_sessions_revoke_all'
       AND inhparent = 'partitioned.auth_sessions'::regclass
  LOOP
    EXECUTE line;
  END LOOP;
  SELECT array_agg(format('ALTER TABLE %s ADD CONSTRAINT %I %s NOT VALID', conrelid::regclass,
                          conname, replace(pg_get_constraintdef(oid), ' NOT VALID', '')))
    INTO links
    FROM pg_constraint WHERE confrelid = 'public.auth_sessions'::regclass;
  FOR line IN
    SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
      FROM pg_constraint WHERE confrelid = 'public.auth_sessions'::regclass
  LOOP
    EXECUTE line;
  END LOOP;
  CREATE SCHEMA replaced;
  ALTER TABLE public.auth_sessions SET SCHEMA replaced;
  FOR line IN SELECT relid FROM pg_partition_tree('partitioned.auth_sessions') LOOP
    EXECUTE format('ALTER TABLE %s SET SCHEMA public', line);
  END LOOP;
  FOREACH line IN ARRAY links LOOP
    EXECUTE line;
  END LOOP;
  DROP SCHEMA partitioned;
END;
$$;

CREATE FUNCTION pg_temp.count_rows() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) FROM public.auth_sessions)
     <> (SELECT count(*) FROM partitioned.auth_sessions) THEN
    RAISE EXCEPTION 'rows were deleted while they were copied: undo it, and start again';
  END IF;
END;
$$;

\timing on
SELECT to_regclass('replaced.auth_sessions') IS NULL AS is_to_do \gset
\if :is_to_do
  \echo a new table, and a trigger that repeats writes in it
  CALL pg_temp.patiently('prepare', 'SELECT pg_temp.prepare()');
  \echo copying
  CALL pg_temp.throughout('copy');
  -- Without statistics the planner takes the table for empty, and reads it as
  -- a whole.
  SELECT EXISTS (SELECT FROM public.auth_sessions) AS has_rows \gset
  \if :has_rows
    ANALYZE partitioned.auth_sessions;
  \endif
  \echo comparing
  CALL pg_temp.throughout('compare');
  SELECT pg_temp.count_rows() \g /dev/null
  \echo taking its place
  CALL pg_temp.patiently('swap', 'SELECT pg_temp.swap()');
\endif
SELECT format('ALTER TABLE %s VALIDATE CONSTRAINT %I', conrelid::regclass, conname)
  FROM pg_constraint
 WHERE confrelid = 'public.auth_sessions'::regclass AND NOT convalidated \gexec
CALL pg_temp.patiently('tidy', 'DROP TABLE replaced.auth_sessions; DROP SCHEMA replaced');
