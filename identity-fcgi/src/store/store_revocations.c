/*
 * What gateways have to refuse, for those who read on from where they were.
 *
 * Where they were is a snapshot: all of what it saw was given to them.  It is
 * told as MARK.NEXT.OPEN: OPEN are transactions below NEXT that it did not
 * see, none from NEXT on was seen.  (Rows may say numbers that are still to
 * come: a dump of another server brings them.  Who begins is given those.)
 * While what is new takes several pages, .XID.SEQ follows, the last row given;
 * when there is none left the snapshot of the first page is where they are.
 * Where the OPEN ones would not fit, NEXT is one of them, and rows may be
 * given again.
 */

#include "store/store_revocations.h"

#include "base/parse.h"
#include "store/sql.h"

#include <stdio.h>
#include <string.h>

#define CURSOR_FORM                                                           \
    "[0-9a-f-]{36}\\.[0-9]{1,18}\\.([0-9]{1,18}(_[0-9]{1,18})*)?"             \
    "(\\.[0-9]{1,18}\\.[0-9]{1,18})?"

/* A row for each revocation, or one without.  The snapshot is the one by which
 * the rows are seen.  28 open ones fit a cursor. */
static const struct db_statement revocations_sql = {
    "revocations",
    "SELECT clock_timestamp(),"
    "       $1 = '' OR coalesce(mark::text = was_mark"
    "           AND was_next <= pg_snapshot_xmax(snapshot), false),"
    "       CASE WHEN at_xid IS NULL"
    "            THEN concat_ws('.', mark, next, coalesce(open, ''))"
    "            ELSE concat_ws('.', was_mark, was_next, was_open) END,"
    "       r.xid || '.' || r.seq, r.session_id, r.account_id,"
    "       r.issued_before, r.revoked_at, r.dies_at"
    "  FROM (SELECT split_part($1, '.', 1) AS was_mark,"
    "               nullif(split_part($1, '.', 2), '')::xid8 AS was_next,"
    "               split_part($1, '.', 3) AS was_open,"
    "               nullif(split_part($1, '.', 4), '')::xid8 AS at_xid,"
    "               nullif(split_part($1, '.', 5), '')::bigint AS at_seq) AS c"
    " CROSS JOIN (SELECT session_revocation_mark() AS mark,"
    "                    pg_current_snapshot() AS snapshot) AS s"
    " CROSS JOIN LATERAL ("
    "       SELECT coalesce((SELECT x FROM pg_snapshot_xip(snapshot) AS x"
    "                         ORDER BY x OFFSET 28 LIMIT 1),"
    "                       pg_snapshot_xmax(snapshot)) AS next,"
    "              CASE WHEN $1 = '' OR at_xid IS NOT NULL"
    "                   THEN '9223372036854775807'"
    "                   ELSE pg_snapshot_xmax(snapshot) END AS upto) AS n"
    " CROSS JOIN LATERAL ("
    "       SELECT string_agg(x::text, '_' ORDER BY x) AS open"
    "         FROM pg_snapshot_xip(snapshot) AS x WHERE x < next) AS o"
    "  LEFT JOIN LATERAL (SELECT * FROM ("
    "       (SELECT * FROM session_revocations"
    "         WHERE (xid, seq) > (coalesce(at_xid, was_next, '0'),"
    "                             coalesce(at_seq, 0))"
    "           AND xid < upto"
    "         ORDER BY xid, seq LIMIT $2)"
    "       UNION ALL"
    "       (SELECT * FROM session_revocations"
    "         WHERE at_xid IS NULL"
    "           AND xid = ANY (string_to_array(was_open, '_')::xid8[])"
    "         ORDER BY xid, seq LIMIT $2)) AS u"
    "       ORDER BY xid, seq LIMIT $2) AS r ON true"
    " ORDER BY r.xid, r.seq",
    false};

enum { NOW, KNOWN, BASE, AT, SESSION, ACCOUNT, BEFORE, REVOKED, DIES };

static bool copy(pj_arena_t *arena, const struct db_rows *rows,
                 struct revocations *out)
{
    size_t count = db_row_count(rows);
    const char *last = "";

    out->now_us = db_time_us(rows, 0, NOW);
    out->more = count > STORE_MAX_LIST;
    count = db_is_null(rows, 0, AT) ? 0 : count - out->more;
    if (out->more) {
        last = db_text(rows, count - 1, AT, NULL);
    }
    snprintf(out->cursor, sizeof(out->cursor), "%s%s%s",
             db_text(rows, 0, BASE, NULL), out->more ? "." : "", last);
    out->items = pj_arena_alloc(arena, (count + 1) * sizeof(*out->items));
    for (; out->items != NULL && out->count < count; out->count++) {
        size_t row = out->count;
        struct revocation *r = &out->items[row];

        db_uuid(rows, row, SESSION, r->session_id);
        db_uuid(rows, row, ACCOUNT, r->account_id);
        r->issued_before_s =
            db_is_null(rows, row, BEFORE) ? 0 : db_int64(rows, row, BEFORE);
        r->revoked_at_us = db_time_us(rows, row, REVOKED);
        r->dies_at_us = db_time_us(rows, row, DIES);
    }
    return out->items != NULL;
}

enum store_result store_revocations(struct store *st, pj_arena_t *arena,
                                    const char *cursor,
                                    struct revocations *out)
{
    struct sql_query q = {0};

    memset(out, 0, sizeof(*out));
    if (cursor[0] != '\0' &&
        !parse_form(cursor, CURSOR_FORM, STORE_CURSOR - 1)) {
        return STORE_NONE;
    }
    db_param_text(&q.p, cursor, strlen(cursor));
    db_param_int64(&q.p, STORE_MAX_LIST + 1);
    if (sql_run(&q, st, &revocations_sql, NULL)) {
        q.result = !db_bool(q.rows, 0, KNOWN)  ? STORE_NONE
                   : !copy(arena, q.rows, out) ? STORE_UNAVAILABLE
                                               : STORE_OK;
    }
    return sql_end(&q);
}
