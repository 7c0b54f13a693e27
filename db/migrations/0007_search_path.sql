-- The triggers find their tables whatever the search path of whoever writes:
-- pg_dump empties it, and data could not be restored.

DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY[
    'check_branch_limits(uuid)', 'branch_grants_limit()', 'branches_limit()',
    'member_roles_limit()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp',
                   f, current_schema());
  END LOOP;
END;
$$;
