# The fleet of docs/scaling.md, and each loss of a part of it while clients work.  The
# hosts are network namespaces of one machine, what they run are Debian's programs with
# the files of examples/fleet.  The clients' calls are held against the rules of
# sessions (Platform::Test::History); what it prints are the tables of docs/scaling.md.
#
# FLEET_ONLY: rows of that name (a pattern); FLEET_SECONDS: how long each loss lasts at
# least; FLEET_CLIENTS; FLEET_KEEP=1 leaves all files where they are.

# Network, mounts and processes of its own: nothing is left, however it ends.
BEGIN {
    exec 't/deb/apart', 'unshare', '--net', $^X, (map {"-I$_"} @INC), $0
        if $> == 0 && !$^C && !$ENV{FLEET_APART}++;
}

use Bench::Figures qw(count table);
use File::Temp qw(tempdir);
use List::Util qw(max min sum0);
use Platform::Test;
use Platform::Test::Calls;
use Platform::Test::Fleet;
use Platform::Test::History;
use Time::HiRes qw(time);

my $ONLY = $ENV{FLEET_ONLY} // '.';
my $SECONDS = $ENV{FLEET_SECONDS} // 12;
my $CLIENTS = $ENV{FLEET_CLIENTS} // 15;

system(Platform::Test::Env::root() . '/tools/needs', 'fleet') == 0 or exit 1;

my $start = Platform::Test::Calls::now();
my $dir = tempdir('fleet-XXXXXX', DIR => $ENV{TMPDIR} // '/var/tmp', CLEANUP => !$ENV{FLEET_KEEP});
chmod 0755, $dir;
$| = 1;

sub clock { return Platform::Test::Calls::now() - $start }
sub says ($text) { printf "# %2d:%02d %s\n", clock() / 60, clock() % 60, $text }

my %address = %Platform::Test::Fleet::ADDRESS;
my $fleet = Platform::Test::Fleet->new($dir, synchronous => 1);
$SIG{$_} = sub { exit 1 } for qw(INT TERM);
my $owner = $$;
END { local $?; $fleet->end if $fleet && $$ == $owner }
says("$dir: a directory for each host");
$fleet->network;
$fleet->begin;
says('three etcd and Patroni; three hosts with two identity processes; two gateways');

# -- an account for each client

sub id_of ($kind, $n) { return sprintf '%08x-0000-4000-8000-%012d', $kind, $n }

eventually(sub { eval { $fleet->operator(\"Fleet-passw0rd!\n",
    qw(account add fleet@example.com)) } }, 60) or die "no identity: $@";
$fleet->sql("insert into tenants (tenant_id, tenant_name) values ('" . id_of(1, 1) . "', 'Fleet')");
$fleet->sql(join ';', map {
    my $n = $_;
    my ($w, $a, $m, $b) = map { id_of($_, $n) } 2 .. 5;
    "insert into accounts (account_id, account_name, credential_hash)
        select '$a', 'fleet$n\@example.com', credential_hash from accounts
        where account_name = 'fleet\@example.com'",
    "insert into workspaces (workspace_id, tenant_id, workspace_name)
        values ('$w', '" . id_of(1, 1) . "', 'W$n')",
    "insert into members (member_id, account_id, workspace_id) values ('$m', '$a', '$w')",
    "insert into branches (branch_id, workspace_id, branch_name) values ('$b', '$w', 'B')",
    "insert into branch_grants (member_id, branch_id, workspace_id) values ('$m', '$b', '$w')",
    "insert into member_roles values ('$m', '$b', 'CASHIER')" } 1 .. 40);

# -- the clients, and what they were answered

my (%crowd, %at, @calls, $record);
my $records = 0;

sub begin_clients ($place, $balancer, $from, @numbers) {
    for my $n (@numbers) {
        $crowd{$n} = $fleet->run($place, "client$n", "$Platform::Test::Fleet::SOAK/client", $n,
            $record, $start, $balancer, $from->($n), "fleet$n\@example.com", id_of(3, $n),
            $fleet->operator_command);
    }
}

sub begin_record ($name) {
    $record = "$dir/$name";
    mkdir $record or die "$record: $!\n";
    @calls = %at = ();
    open my $out, '>', "$record/faults" or die "$record: $!\n";
    printf {$out} "rule epoch=%.6f issuer=https://api.example.com window=60 failures=0 reach=1 "
        . "recover=3 leeway=30 doubt=25 skew=1 away=loss access_ttl=900 refresh_ttl=%d\n",
        time - clock(), 30 * 86400;
    for my $n (1 .. 40) {
        my $path = join '/', map({ id_of($_, $n) } 2), id_of(1, 1), id_of(4, $n), id_of(5, $n);
        print {$out} "call 0 0 set 200 OK account=${\ id_of(3, $n)} to=k0\n",
            "call 0 0 grant 200 OK account=${\ id_of(3, $n)} type=CUSTOMER can=$path:CASHIER\n";
    }
    return $out;
}

# Reads on: { b, e, op, status, code } of calls, and what clients say of themselves.
sub look {
    for my $n (keys %crowd) {
        my $fh = $at{$n} //= do { open my $f, '<', "$record/calls.$n" or next; $f };
        seek $fh, 0, 1;
        while (my $line = <$fh>) {
            if ($line !~ /\n\z/) {
                seek $fh, -length $line, 1;
                last;
            }
            my ($type, @f) = split ' ', $line;
            if ($type eq 'call') {
                push @calls, { n => $n, b => $f[0], e => $f[1], op => $f[2], status => $f[3],
                    code => $f[4] };
            }
            elsif ($f[0] eq 'wait') {
                push @calls, { n => $n, b => $f[1], e => $f[2], op => "wait $f[3]", status => '' };
            }
            else {
                push @calls, { n => $n, b => $f[1], e => $f[1], op => $f[0], status => $f[2] };
            }
        }
    }
}

sub go_on ($since) {
    my $all = eventually(sub {
        look();
        my %well = map { $_->{n} => 1 } grep { $_->{b} > $since && $_->{status} eq '200' } @calls;
        return keys %well == keys %crowd;
    }, 90);
    return $all;
}

# -- the losses

my $p;    # the primary's host, when a loss begins
sub standbys { return grep { $_ ne $p } qw(db1 db2 db3) }

sub step_by_step {
    for my $host (qw(gw1 gw2)) {
        $fleet->stop($host, 'nginx', 'QUIT');
        $fleet->start($host);
        sleep 3;
    }
    $fleet->signal('lb', 'haproxy', 'USR2');
    for my $host (qw(id1 id2 id3)) {
        for (1, 2) {
            $fleet->signal($host, "identity$_", 'HUP');
            sleep 1;
        }
        $fleet->signal($host, 'haproxy', 'USR2');
        $fleet->stop($host, 'pgbouncer', 'INT');
        $fleet->start($host, 'pgbouncer');
        sleep 1;
    }
    for my $host (standbys(), $p) {
        switch_over($host) if $host eq $p;
        $fleet->stop($host, $_) for qw(patroni etcd);
        $fleet->start($host);
        eventually(sub { $fleet->whole }, 240) or die "$host does not come back\n";
    }
}

sub switch_over ($from) {
    $fleet->patronictl('switchover', 'platform', '--master', $from, '--force');
}

# [ name, how it is inflicted, how it is undone ]; what has to hold is the same for all.
my @losses = (
    [ 'nothing', sub { }, sub { } ],
    [ 'a gateway: power off', sub { $fleet->power_off('gw1') }, sub { $fleet->power_on('gw1') } ],
    [ 'a gateway: hangs', sub { $fleet->freeze('gw2', 'STOP') },
        sub { $fleet->freeze('gw2', 'CONT') } ],
    [ 'an identity host: power off', sub { $fleet->power_off('id1') },
        sub { $fleet->power_on('id1') } ],
    [ 'PgBouncer of a host: kill -9', sub { $fleet->stop('id2', 'pgbouncer', 'KILL') },
        sub { $fleet->start('id2', 'pgbouncer') } ],
    [ 'primary: kill -9', sub { $fleet->kill_postgres($p) }, sub { } ],
    [ 'primary: hangs', sub { $fleet->freeze($p, 'STOP', 'postgres') },
        sub { $fleet->freeze($p, 'CONT') } ],
    [ 'primary\'s host: stands still', sub { $fleet->freeze($p, 'STOP') },
        sub { $fleet->freeze($p, 'CONT') } ],
    [ 'primary\'s host: power off', sub { $fleet->power_off($p) }, sub { $fleet->power_on($p) } ],
    [ 'primary\'s host: cut off', sub { $fleet->cable($p, 0) }, sub { $fleet->cable($p, 1) } ],
    [ 'primary: cut off from the other two, not from identity',
        sub { $fleet->deaf($p, [ standbys() ], 1) }, sub { $fleet->deaf($p, [ standbys() ], 0) } ],
    [ 'the standby in step: power off', sub { $fleet->power_off($fleet->in_step) },
        sub { $fleet->power_on($_) for grep { !$fleet->pids($_) } qw(db1 db2 db3) } ],
    [ 'etcd: two of three', sub { $fleet->stop($_, 'etcd', 'KILL') for standbys() },
        sub { $fleet->start($_, 'etcd') for standbys() } ],
    [ 'primary\'s disk: each fsync 300 ms more', sub { $fleet->slow($p, 300) },
        sub { $fleet->slow($p, 0) } ],
    [ 'primary\'s disk of the log: full', sub { $fleet->fill($p, 1) },
        sub { $fleet->fill($p, 0) } ],
    [ 'switchover', sub { switch_over($p) }, sub { } ],
    [ 'all of it restarted, step by step', \&step_by_step, sub { } ],
);

my @table;

# With $then, that is done while the part is still lost, and clients work no more.
sub lose ($faults, $name, $begin, $end, $then = undef) {
    eventually(sub { $fleet->whole }, 240) or die "before '$name': " . $fleet->state . "\n";
    go_on(clock()) or die "before '$name': clients are not at work\n";
    $p = eventually(sub { $fleet->primary }, 30) || die "before '$name': no primary\n";
    my $from = clock();
    $begin->();
    my $lost = clock();
    sleep 0.2 while clock() < $lost + $SECONDS;
    # Until refreshes go on without what is lost, or do not.
    eventually(sub {
        look();
        return grep { $_->{op} eq 'refresh' && $_->{status} eq '200'
            && $_->{b} > clock() - 3 } @calls;
    }, 40);
    my $over = clock();
    $then->($from) if $then;
    $end->();
    ok eventually(sub { $fleet->whole }, 240), "$name: all is there again"
        or diag $fleet->state;
    ok go_on(clock()), "$name: all clients are at work again" if !$then;
    my $to = $then ? $over : clock();
    printf {$faults} "fault %.6f %.6f loss\n", $from, $to if $name ne 'nothing';
    $faults->flush;
    my $row = { name => $name, from => $from, over => $over, to => $to };
    push @table, $row;
    measure($row);
    says(join ' | ', @{ cells($row) });
}

sub in_row ($row) {
    my $who = $row->{who} // qr/./;
    return grep { $_->{b} >= $row->{from} && $_->{b} < $row->{to} && $_->{n} =~ $who } @calls;
}

# The longest time in which nobody's request of that kind succeeded.
sub nobody ($row, $op) {
    my @ends = sort { $a <=> $b } map { $_->{e} }
        grep { $_->{op} eq $op && $_->{status} eq '200' } in_row($row);
    my $longest = 0;
    my $last = $row->{from};
    for my $end (@ends) {
        $longest = max($longest, $end - $last);
        $last = $end;
    }
    return $longest;
}

# The longest that one client had to ask, again and again.
sub one_client ($row, $op) {
    return max 0, map { $_->{e} - $_->{b} } grep { $_->{op} eq "wait $op" } in_row($row);
}

sub measure ($row) {
    look();
    my @real = grep { $_->{op} =~ /^(?:login|refresh|context|logout)$/ } in_row($row);
    $row->{requests} = @real;
    $row->{waited} = grep { !$_->{status} || $_->{status} >= 500 } @real;
    $row->{forced} = grep { $_->{op} eq 'forced' } in_row($row);
    $row->{lost} = grep { $_->{op} eq 'forced' && $_->{status} eq 'AUTH_SESSION_NOT_ACTIVE' }
        in_row($row);
    $row->{admitted} = grep { $_->{op} eq 'forged' && $_->{status} eq '200' } in_row($row);
    for my $op (qw(refresh context)) {
        $row->{$op} = nobody($row, $op);
        $row->{"one_$op"} = one_client($row, $op);
    }
}

# The cells of its row.
sub cells ($row) {
    return [ $row->{name} =~ s/^asynchronous: //r,
        (map { defined $row->{$_} ? count($row->{$_}) : '?' } qw(requests waited wrong lost forced)),
        map { sprintf '%.1f / %.1f', @$row{ $_, "one_$_" } } qw(refresh context) ];
}

sub end_clients {
    Platform::Test::Env::put("$record/enough", '');
    for my $n (sort keys %crowd) {
        ok $crowd{$n}->wait_end(60), "client $n ends";
    }
    look();
    %crowd = ();
}

# What contradicts the rules, of which row.
sub judge ($faults) {
    close $faults or die "$record: $!\n";
    system "cat $record/faults $record/calls.* >$record/history";
    my $history = Platform::Test::History->new(
        sub { open my $fh, '<', "$record/history" or die "$record: $!\n"; return $fh });
    my @wrong = $history->violations;
    for my $row (@table) {
        $row->{what} = [ grep { /: call ([\d.]+)/ && $1 >= $row->{from} && $1 < $row->{to} }
            @wrong ];
        $row->{wrong} = @{ $row->{what} } + $row->{admitted};
    }
    return ($history, @wrong);
}

sub show ($title) {
    says($title);
    print "\n", table([ 'loss', 'requests', 'told to wait', 'wrong answers', 'sessions lost',
        'forced logins', 'no refresh', 'no guarded call' ], map { cells($_) } @table);
}

sub holds ($row) {
    is $row->{wrong}, 0, "$row->{name}: no wrong answer"
        or diag join "\n", map { substr $_, 0, 400 } grep {defined} @{ $row->{what} }[ 0 .. 5 ];
    is $row->{forced}, 0, "$row->{name}: no session lost";
    cmp_ok $row->{context}, '<=', 2, "$row->{name}: guarded calls go on";
}

# -- synchronous

my $near = sub ($n) {"10.0.1.$n"};
my @rows = grep { $_->[0] =~ /$ONLY/ } @losses;
if (@rows) {
    my $faults = begin_record('synchronous');
    begin_clients('clients', $address{lb}, $near, 1 .. $CLIENTS);
    lose($faults, @$_[0 .. 2]) for @rows;
    end_clients();
    my ($history, @wrong) = judge($faults);
    show('synchronous replication');
    for my $row (@table) {
        holds($row);
        cmp_ok $row->{refresh}, '<=', 15, "$row->{name}: refreshes go on";
    }
    # In one row alone there may be nobody.
    cmp_ok $history->in_time, '>', 0, 'control: gateways refused who was logged out'
        if $ONLY eq '.';
}


# -- asynchronous: what was answered may be lost, and what was over comes back

# Refreshes with a token that had been replaced, or whose session had ended: whether that
# works, and whether gateways let its new access token in.
sub tried ($session, $token, $next) {
    my ($status, $body) = $fleet->ask(POST => '/api/auth/refresh',
        body => qq({"refreshToken":"$token"}));
    my ($access, $new) = map { $body =~ /"$_":"([^"]+)"/ } qw(accessToken refreshToken);
    return (0, 0) if $status != 200 || $next eq (jwt_decode($new))[1]{jti};
    my ($let_in) = $fleet->ask(GET => '/api/workspaces/current-context', token => $access);
    return (1, $let_in == 200);
}

# { kind => [ how many were over, how many of those work again, and open a gateway ] }
sub came_back ($from) {
    my %back = map { $_ => [ 0, 0, 0 ] } qw(rotated logout lockout);
    my @over = map { [split] } grep { /^([\d.]+)/ && $1 > $from - 1 }
        map { split /\n/, Platform::Test::Env::slurp($_) // '' } glob "$record/tokens.*";
    for my $over (@over) {
        my (undef, $kind, $session, $token, $next) = @$over;
        my ($works, $opens) = tried($session, $token, $next);
        $back{$kind}[0]++;
        $back{$kind}[1] += $works;
        $back{$kind}[2] += $opens;
    }
    return \%back;
}

sub asynchronous ($name, $begin, $end) {
    $fleet->patronictl('edit-config', 'platform', '--force', '-s', 'synchronous_mode=false')
        if $fleet->{synchronous};
    $fleet->{synchronous} = 0;
    ok eventually(sub { $fleet->sql('show synchronous_standby_names') eq '' }, 60),
        'replication is asynchronous';
    my $faults = begin_record('asynchronous' . $records++);
    @table = ();
    begin_clients('clients', $address{lb}, $near, 1 .. $CLIENTS);
    my ($first, $after, $seconds);
    lose($faults, $name, $begin, $end, sub ($from) {
        my $since = $fleet->moment($from - clock() - 5);
        end_clients();
        ($first, $seconds) = (came_back($from), clock() - $from);
        # A PgBouncer that nobody has used since the failover refuses the first one.
        eventually(sub { eval { $fleet->operator(\'', qw(sessions revoke --since), $since) } }, 30)
            or die $@;
        sleep 2;
        $after = came_back($from);
    });
    judge($faults);
    show('asynchronous replication');
    print "\n", table([ 'what was over', 'tokens', 'work again', 'open a gateway',
        'after `sessions revoke`' ],
        map { [ $_, @{ $first->{$_} }, $after->{$_}[1] ] } sort keys %$first);
    says(sprintf 'looked %.0f s after the loss; %s', $seconds, join ', ',
        map { s/: .*//r } map { @{ $_->{what} } } @table);
    is $after->{$_}[1], 0, "$name: sessions revoke ends it: $_" for sort keys %$after;
    is $table[0]{admitted}, 0, "$name: no forged token is let in";
}

for my $loss (grep { $_->[0] =~ /^primary.*(?:power off|cut off from the other two)/ } @losses) {
    my ($name, @do) = @$loss;
    asynchronous("asynchronous: $name", @do) if "asynchronous: $name" =~ /$ONLY/;
}

# -- two regions, 80 ms apart

sub percentile ($op, $who, $from, $to, $part) {
    my @took = sort { $a <=> $b } map { 1000 * ($_->{e} - $_->{b}) }
        grep { $_->{op} eq $op && $_->{status} eq '200' && $_->{n} =~ /$who/
            && $_->{b} >= $from && $_->{b} < $to } @calls;
    return @took ? $took[ $part * $#took ] : -1;
}

if ('two regions' =~ /$ONLY/) {
    $fleet->far(40);
    my $faults = begin_record('regions');
    @table = ();
    my @latency;
    my $watch = sub ($what, $who) {
        go_on(clock()) or die "clients are not at work\n";
        my $from = clock();
        sleep $SECONDS;
        look();
        push @latency, [ $what, map { my $op = $_;
            map { percentile($op, $who, $from, clock(), $_) } 0.5, 0.95 } qw(refresh context) ];
    };
    $fleet->begin_far('far');
    begin_clients('clients', $address{lb}, $near, 1 .. 9);
    begin_clients('farclients', $address{gw3}, sub ($n) {"10.0.3.$n"}, 21 .. 29);
    $watch->('there: gateway, identity and PgBouncer', qr/^2\d$/);
    push @latency, [ 'here', map { my $op = $_; map { percentile($op, qr/^\d$/,
        clock() - $SECONDS, clock(), $_) } 0.5, 0.95 } qw(refresh context) ];
    lose($faults, 'the wire between the regions is cut', sub { $fleet->wire(0) },
        sub { $fleet->wire(1) });
    my %all = %{ $table[0] };
    for my $of ([ here => qr/^\d$/ ], [ there => qr/^2\d$/ ]) {
        my $row = { %all, name => "$all{name}: $of->[0]", who => $of->[1] };
        push @table, $row;
        measure($row);
    }
    shift @table;
    $fleet->begin_far('near');
    $watch->('there: gateway alone', qr/^2\d$/);
    end_clients();
    judge($faults);
    show('two regions');
    print "\n", table([ 'clients, and what is there', 'a refresh: half of them', '95 %',
        'a call: half of them', '95 %' ],
        map { my ($who, @ms) = @$_; [ $who, map { sprintf '%.0f ms', $_ } @ms ] } @latency);
    holds($_) for @table;
    cmp_ok $table[0]{refresh}, '<=', 2, 'here nobody notices';
}

done_testing();
