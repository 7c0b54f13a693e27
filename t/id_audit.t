# The table of the audit: a row for each change, in the transaction of the change,
# whether a command, a request or SQL makes it; who may write rows; what is kept.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $c = Platform::Test::Commands->new(test => $t, env => { PLATFORM_LOG_LEVEL => 'error' });
$pg->sql($t->read_file($t->root . '/db/roles.sql')
    . 'create role served login in role platform_identity;'
    . 'create role ops login in role platform_operator', user => 'postgres');
my $user = getpwuid $<;

sub newest { return $pg->sql('select coalesce(max(event_id), 0) from audit_events') }

# Does something; the rows that this leaves have these events, and are returned.
sub leaves ($what, $events, $do) {
    my $since = newest();
    $do->();
    my @columns = qw(event operator by_account by_jti account_id session_id tenant_id workspace_id
        branch_id member_id roles request_id address);
    my @rows = map { my %row; @row{@columns} = split /\|/, $_, -1; \%row }
        split /\n/, $pg->sql('select ' . join(', ', @columns)
            . " from audit_events where event_id > $since order by event_id");
    is_deeply [ map { $_->{event} } @rows ], $events, "$what: " . (join ' ', @$events or 'no row')
        or diag explain \@rows;
    return @rows;
}
sub command ($events, @args) {
    my $done;
    my @rows = leaves("@args", $events, sub { $done = $c->done(@args) });
    return wantarray ? @rows : ($rows[-1], $done);
}

# -- accounts

my $name = 'new@demo.test';
my ($row) = command(['account.added'], qw(account add --no-login), $name);
my $id = $row->{account_id};
is_deeply [ @$row{qw(operator by_account)} ], [ $user, '' ], 'by the user who ran the command';
is $id, $pg->sql("select account_id from accounts where account_name = '$name'"), 'of this account';
leaves('a command that is refused', [],
    sub { $c->refused(1, qr/exists already/, qw(account add --no-login), $name) });
command(['account.renamed'], qw(account rename new@demo.test --to newer@demo.test));
command([], qw(account rename newer@demo.test --to newer@demo.test));
$name = 'newer@demo.test';
command([ 'account.credential_set', 'account.sessions_revoked' ], { stdin => 'An0ther credential' }, qw(account set-credential),
    $name);
command([ map {"account.$_"} @{ $_->[1] } ], account => $_->[0], $name)
    for [ disable => [qw(disabled sessions_revoked)] ], [ enable => ['enabled'] ],
    [ 'revoke-sessions' => ['sessions_revoked'] ];
command([], 'account', 'unlock', $name);
command([ 'account.deleted', 'account.sessions_revoked' ], 'account', 'delete', $name);
is $pg->sql("select count(*) from audit_events e where e::text like '%demo.test%'"), 0,
    'no row has a name: nothing to erase';
command([], qw(sessions revoke --since 2020-01-01T00:00:00Z));

# -- places, members and grants

my @place = command([ 'tenant.added', 'workspace.added' ],
    qw(workspace add Audited --new-tenant Audited));
is $place[0]{tenant_id}, $place[1]{tenant_id}, 'both of the tenant';
is $place[1]{operator}, $user, 'and by the user';
my ($added) = command(['branch.added'], qw(branch add First --workspace Audited));
is $added->{workspace_id}, $place[1]{workspace_id}, 'a branch of the workspace';
my @one = (qw(--account one@demo.test));
my ($member) = command(['member.added'], qw(member add --workspace Audited), @one);
my ($granted, $roles) = command([ 'member.granted', 'member.roles_granted' ],
    qw(member grant --branch First --role B --role A), @one);
is_deeply [ @$granted{qw(account_id member_id branch_id workspace_id)} ],
    [ @$member{qw(account_id member_id)}, @$added{qw(branch_id workspace_id)} ], 'who, and where';
is $roles->{roles}, '{A,B}', 'and as what';
command([], qw(member grant --branch First --role B), @one);
($roles) = command(['member.roles_revoked'], qw(member revoke --branch First --role B), @one);
is $roles->{roles}, '{B}', 'the role that was taken';
command([ 'member.revoked', 'member.roles_revoked' ], qw(member revoke --branch First), @one);
command(['member.ended'], qw(member revoke --workspace Audited --all), @one);
command(["$_->[0].$_->[1]"], $_->[0], @$_[ 2 .. $#$_ ])
    for [ branch => 'renamed', qw(rename First --to Second) ],
    [ branch => 'deactivated', qw(deactivate Second) ],
    [ branch => 'activated', qw(activate Second) ],
    [ workspace => 'renamed', qw(rename Audited --to Again) ],
    [ workspace => 'deactivated', qw(deactivate Again) ],
    [ workspace => 'activated', qw(activate Again) ];

# -- an import

my $lines = join '', map {qq({"account":"i$_\@demo.test"}\n)} 1 .. 3;
my @imported = command([ ('account.added') x 3 ], { stdin => $lines }, qw(account import));
is $imported[2]{operator}, $user, 'each by the user';

# -- requests

my %env = (PLATFORM_DB_USER => 'served', PLATFORM_DB_SEED_ON_START => 'false');
my $identity = $t->identity_face(%env, PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '60s');
client_of($t);

my ($session, $other);
leaves('logins', [], sub { ($session, $other) = map { logged_in('one') } 1 .. 2 });
my $account = claims($session)->{account_id};
leaves('a refresh and a logout', [],
    sub { is logout(next_of(refresh(logged_in('one'))))->status, 200, 'done' });
my ($ended) = leaves('one session that its owner ends', ['auth.session.ended'], sub {
    is http($t->port("identity"), DELETE => '/api/auth/sessions/' . session_of($other),
        token => $session->{accessToken}, headers => [ 'X-Request-Id' => 'r-1' ])->status, 200, 'done';
});
is_deeply [ @$ended{qw(operator by_account by_jti account_id session_id request_id address)} ],
    [ '', $account, claims($session->{accessToken})->{jti}, $account, session_of($other), 'r-1',
        '127.0.0.1' ], 'by whom, whose, by which request, from where';
my $third = session_of(logged_in('one'));
my ($named) = command(['account.sessions_revoked'], qw(account revoke-sessions one@demo.test --session), $third);
is_deeply [ @$named{qw(operator session_id)} ], [ $user, $third ], 'one session that an operator ends';
my ($changed) = leaves('a credential that its owner changes', ['auth.credential.changed'], sub {
    is call('change-credential', { credential => $Platform::Test::Client::CREDENTIAL,
        newCredential => 'An0ther credential' }, token => $session->{accessToken})->status, 200, 'done';
});
is $changed->{by_account}, $account, 'by its owner';

my $moved = logged_in('several');
refresh($moved, headers => [ 'User-Agent' => 'first' ]);
my ($elsewhere) = leaves('a retry from elsewhere', ['auth.refresh.retried_elsewhere'],
    sub { is refresh($moved, headers => [ 'User-Agent' => 'second' ])->status, 200, 'done' });
is_deeply [ @$elsewhere{qw(operator session_id)} ], [ 'served', session_of($moved) ],
    'the service observed it';
refresh(my $next = refresh($moved, headers => [ 'User-Agent' => 'first' ])->json->{refreshToken});
leaves('reuse', ['auth.refresh.reuse'], sub { is refresh($moved)->status, 401, 'done' });

# -- SQL

my ($sql) = leaves('SQL', ['account.disabled'],
    sub { $pg->sql("update accounts set status = 'DISABLED' where account_id = '$account'") });
is_deeply [ @$sql{qw(operator account_id)} ], [ 'platform', $account ], 'by the role';
leaves('a transaction that fails', [], sub {
    eval { $pg->sql("begin; update accounts set status = 'ACTIVE' where account_id = '$account';
        select 1/0") };
});

# -- nobody else writes

my $event = "insert into audit_events (event) values ('account.added')";
for my $case (
    [ $event, qr/permission denied for table/ ],
    [ 'update audit_events set operator = null', qr/permission denied for table/ ],
    [ 'delete from audit_events', qr/permission denied for table/ ],
    [ 'truncate audit_events', qr/permission denied for table/ ],
    [ "select audit_write('{account.added}', null, null, null, null, null, null, null)",
        qr/permission denied for function/ ],
    [ "select audit_observe('account.added', null)", qr/not an event that is only observed/ ],
    [ 'select audit_months(2591999)', qr/at least 30 days/ ],
) {
    my ($do, $why) = @$case;
    eval { $pg->sql($do, user => 'served') };
    like $@, $why, "the service may not: $do";
}
for my $do ('select count(*) from audit_events', 'select audit_months(2592000)') {
    ok defined eval { $pg->sql($do, user => 'served') }, "the service may: $do" or diag $@;
    ok defined eval { $pg->sql($do, user => 'ops') }, "so may an operator" or diag $@;
}

# Who makes a change is the service's word; that there is a row for it is not.
my ($stated) = leaves('a change in the name of another account', ['account.renamed'], sub {
    $pg->sql(qq{begin; select set_config('platform.actor', '{"account":"$id","address":"192.0.2.1"}', true);
        update accounts set account_name = 'two\@demo.test' where account_id = '$account'; commit}, user => 'served');
});
is_deeply [ @$stated{qw(by_account address account_id)} ], [ $id, '192.0.2.1', $account ], 'says what was stated';

# -- months

sub parts {
    return $pg->sql("select string_agg(relname, ' ' order by relname) from pg_class
        where relname ~ '^audit_events_[0-9]{4}_[0-9]{2}\$'");
}
my $made = parts();
like $made, qr/\Aaudit_events_\d{4}_\d\d audit_events_\d{4}_\d\d\z/, 'this month and the next';
is $pg->sql('select count(*) from audit_events_rest'), 0, 'no row is outside';
my $old = "create table audit_events_2020_01 partition of audit_events
    for values from ('2020-01-01Z') to ('2020-02-01Z');
    insert into audit_events (event, event_at) values ('account.added', '2020-01-05Z'),
        ('account.added', '2020-03-05Z')";
$pg->sql($old);
my $kept = $pg->sql('select count(*) from audit_events');
$c->done({ env => { PLATFORM_AUDIT_KEEP => '3650d' } }, 'sweep');
is $pg->sql('select count(*) from audit_events'), $kept, 'a sweep keeps what PLATFORM_AUDIT_KEEP says';
my $lock = $pg->begin('select count(*) from audit_events');
$c->done('sweep');
is $pg->sql('select count(*) from audit_events'), $kept, 'it waits for no reader';
$pg->end($lock, 'rollback');
$c->done('sweep');
is parts(), $made, 'and drops a month that is older';
is $pg->sql('select count(*) from audit_events'), $kept - 2, 'and old rows outside of months';

# A month without a partition, as after a rest: its rows move into one, and all goes on.
my ($month) = split / /, $made;
$pg->sql("alter table audit_events detach partition $month; insert into audit_events select * from $month;
    drop table $month; insert into audit_events (event, event_at) values ('account.added', '2020-03-05Z')");
is $pg->sql('select count(*) from audit_events_rest'), $kept - 1, 'rows of a month without a partition';
$c->done('sweep');
is parts(), $made, 'a sweep makes it';
is $pg->sql("select (select count(*) from audit_events_rest), (select count(*) from $month)"),
    '0|' . ($kept - 2), 'with these rows, and drops older ones';

# -- the list

my $all = $c->done(qw(audit list --limit 1000));
is scalar @$all, $kept - 2, 'audit list: all of them';
my @ids = map { $_->{eventId} } @$all;
is_deeply \@ids, [ sort { $b <=> $a } @ids ], 'newest first';
my ($from, @pages) = ('');
while (my @rows = @{ $c->done(qw(audit list --limit 7), $from ? ("--after", $from) : ()) }) {
    push @pages, map { $_->{eventId} } @rows;
    $from = $rows[-1]{eventId};
}
is_deeply \@pages, \@ids, 'in pages';
my ($first) = grep { $_->{event} eq 'auth.session.ended' } @$all;
is_deeply [ map { $_->{eventId} } @{ $c->done(qw(audit list --event auth.session.ended)) } ],
    [ $first->{eventId} ], '--event';
is_deeply [ @$first{qw(operator byAccountId accountId requestId roles)} ],
    [ undef, $account, $account, 'r-1', [] ], 'its members';
is_deeply [ sort { $a cmp $b } keys %{ { map { ($_->{accountId} => 1) }
    @{ $c->done(qw(audit list --account two@demo.test)) } } } ], [$account], '--account';
is scalar @{ $c->done(qw(audit list --until 2020-01-01T00:00:00Z)) }, 0, '--until';
is scalar @{ $c->done(qw(audit list --limit 1000 --since 2020-01-01T00:00:00Z)) }, scalar @ids, '--since';
my (undef, $out) = $c->run(qw(audit list --limit 1 --event auth.session.ended));
like $out, qr/\Atime +event +operator +account id +event id\n\S+Z +auth\.session\.ended +- +$account +\d+\n\z/,
    'for people';
$c->refused(1, qr/there is no event with this id/, qw(audit list --after 999999999));
$c->refused(2, qr/--since is a time in UTC/, qw(audit list --since yesterday));
$t->done;
