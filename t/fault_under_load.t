# One fault after another while clients work: the database, the issuer and the feed,
# processes that die, and a lack of descriptors, connections, memory and room on the
# disk.  Whoever may in is let in or told that it is not possible now, nobody else
# ever is, no session is lost, one line says what it is, and it passes by itself.
#
# FAULT_SECONDS: how long each lasts at least; FAULT_CLIENTS; FAULT: those of that name
# (a pattern).  docs/reliability.md has the figures.

# A small disk is mounted where nobody else sees it.
BEGIN {
    my $mounts = 'PLATFORM_TEST_MOUNTS';
    exec 'unshare', '--mount', $^X, (map {"-I$_"} @INC), $0
        if $> == 0 && !$^C && !$ENV{$mounts}++ && system('unshare --mount true 2>/dev/null') == 0;
}

use IO::Socket::INET;
use List::Util qw(max sum0);
use Platform::Test;
use Platform::Test::KeyDir;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Time::HiRes qw(time);

my $SECONDS = $ENV{FAULT_SECONDS} // 0.3;
my $CLIENTS = $ENV{FAULT_CLIENTS} // 6;
# The pause of a client: enough are under way at any time, and the machine has other tests.
my $PAUSE = $ENV{FAULT_SECONDS} ? 0 : 0.02;

my $t = Platform::Test->new;
my ($dir, $key) = ($t->dir, jwt_key('identity'));
my $pg = $t->postgres(durable => 1);

# The disk that will be full: identity's log and keys, nginx's access log and its file
# of keys.
mkdir "$dir/disk" or die "disk: $!\n";
my $small = $ENV{PLATFORM_TEST_MOUNTS}
    && system("mount -t tmpfs -o size=32m platform-test $dir/disk 2>/dev/null") == 0;
END { system "umount -l $dir/disk" if $small }
mkdir "$dir/disk/cache";
symlink "$dir/disk/identity.log", "$dir/identity.log" or die "symlink: $!\n";
my $keys = key_dir($t, 'disk/keys');
key_put($keys, $key, 'signing', 100);

# An issuer and a feed that pass on what identity says, or as they are told.
my $socket = "$dir/identity.sock";
my $issuer = 'http://127.0.0.1:' . $t->port('identity');
my $only = $ENV{FAULT} // '';
sub passes ($request, $server) {
    my $s = $server->get;
    return [ 200, [], '{"keys":[' . ' ' x 3_000_000 . ']}' ] if $s->{huge};
    return Platform::Test::Server::issue($request, $server, $s) if $s->{bad};
    my $got = eval { $t->fcgi($socket)->request(GET => $request->{uri}) } // return undef;
    return [ $got->{status}, [ 'Content-Type' => 'application/json' ], $got->{body} ];
}
my %server = map { $_ => $t->http_server($_, \&passes) } qw(issuer feed);

my %env = (
    key_dir_env($keys),
    PLATFORM_WORKER_THREADS       => 4,
    PLATFORM_REQUEST_TIMEOUT      => '8s',
    PLATFORM_DB_STATEMENT_TIMEOUT => '3s',
    PLATFORM_DB_CONNECT_TIMEOUT   => '1s',
    PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '60s',
    IDENTITY_URL       => 'http://127.0.0.1:' . $t->port('issuer'),
    GATEWAY_ACCESS_LOG => "$dir/disk/access.log",
);
my $s = $t->full_stack(echo => 1, key_age => '1s', env => \%env, edit => sub {
    s/(worker_processes) auto/$1 2/ && s/(worker_connections) 1024/$1 96/
        && s{(include platform-http.conf;)}{$1
            platform_gateway_key_cache_file $dir/disk/cache/keys;} or die 'no place';
    my $feed = 'rendered/gateway-key-set.conf';
    my $text = $t->read_file($feed);
    $text =~ s{include identity_fastcgi_params;\s*fastcgi_pass \w+;}
        {%%TO%% proxy_pass_request_headers off;} or die "no feed: $text";
    $t->write_file($feed, $text =~ s/%%TO%%/$t->expand('%%TO_feed%%')/er);
});
my ($nginx, $identity) = ($s->nginx, $s->identity);
$t->allow(map { qr/\[(?:alert|crit|emerg)\] .*$_/ } 'Too many open files', 'No space left',
    'worker_connections are not enough', 'Cannot allocate memory', 'exited on signal 9',
    'write.. to ".*" was incomplete');

# -- the clients, in a process of their own: "sent end what status" for each answer, and
#    "wrong" for one that must not be

sub clients ($=) {
    srand 7;
    my $load = Platform::Test::Load->new(port => $s->gateway, clients => $CLIENTS, timeout => 20);
    my $history = Platform::Test::Sessions->new;
    my $bad = jwt_token(branch => jwt_key('other')->as($key->kid), iss => $issuer);
    $load->run(sub ($c) {
        return $c->{number} || $history->all >= $CLIENTS ? undef : $history->login('one');
    }, sub ($request, $answer) {
        $history->note($request, $answer);
        ($_->{access}) = $answer->{body} =~ /"accessToken":"([^"]+)"/
            for grep { !$_->{access} } $history->all;
    });
    my @sessions = $history->all;
    print "ready\n";
    my $next = sub ($c) {
        return undef if -e "$dir/enough";
        my $mine = $sessions[ $c->{number} ] // return undef;
        return { wait => $PAUSE } if $PAUSE && ($c->{rested} = !$c->{rested});
        return $mine->{again} if $mine->{again};
        my $dice = rand;
        return { %{ $history->refresh($mine) }, what => 'refresh' } if $dice < 0.25;
        my ($what, $token) = $dice < 0.4 ? (forged => $bad) : (call => $mine->{access});
        return { method => 'GET', path => '/api/workspaces/current-context', session => $mine,
            what => $what, token => $token };
    };
    $load->run($next, sub ($request, $answer) {
        my ($what, $mine, $status) = ($request->{what}, $request->{session}, $answer->{status});
        # What may not have been done is asked again, as docs/http-api.md says.
        $mine->{again} = $status >= 500 || !$status ? $request : undef;
        return if !$status && $answer->{reused};
        printf "%.3f %.3f %s %d\n", $answer->{sent}, time, $what, $status;
        return if $status >= 500 || !$status;
        my $why = $status == ($what eq 'forged' ? 401 : 200) ? '' : $answer->{code} || 'status';
        if ($what eq 'call' && $status == 200) {
            $why = 'somebody else' if $answer->{body} !~ /"X-Session-Id","$mine->{id}"/i;
        }
        if ($what eq 'refresh' && $status == 200) {
            my ($new) = $answer->{body} =~ /"refreshToken":"([^"]+)"/;
            ($mine->{access}) = $answer->{body} =~ /"accessToken":"([^"]+)"/;
            $mine->{current} = $new;
            $why = 'another session' if (jwt_decode($new))[1]{session_id} ne $mine->{id};
        }
        return if !$why;
        printf "wrong %.3f %s %s %s\n", $answer->{sent}, $what, $status, $why;
        @sessions = map { ($_ // 0) == $mine ? undef : $_ } @sessions if $what eq 'refresh';
    });
}

my @spare = Platform::Test::Sessions->new(issuer => $issuer)
    ->make($pg, $key, 'one', 64);
my $clients = Platform::Test::Crowd->new($t, 'clients', 1, \&clients);
ok eventually(sub { $clients->lines }), 'clients are logged in';

# -- what there is to break

sub root ($sql) { return $pg->sql($sql, user => 'postgres') }

sub cut { root("select pg_terminate_backend(pid) from pg_stat_activity
    where usename = 'platform'") }

# The kernel's limit of these processes; none: as it was.
my %limit;
sub limit ($what, $value, @pids) {
    for my $pid (@pids) {
        $limit{"$pid $what"} //= qx{prlimit --pid $pid --$what --output SOFT,HARD --noheadings}
            =~ s/\s*(\S+)\s+(\S+)\s*/$1:$2/r;
        my $set = ref $value ? $value->($pid) : $value;
        $set = defined $set ? "$set:" : $limit{"$pid $what"};
        system('prlimit', '--pid', $pid, "--$what=$set") == 0 or die "no limit of $what\n";
    }
}

# What it has by now.
sub memory ($pid) { return ($t->read_file("/proc/$pid/status") =~ /VmSize:\s+(\d+)/)[0] * 1024 }

sub server ($name, %state) { return sub { $server{$name}->set(bad => 1, raw => undef, %state) } }

sub good ($name) { return sub { $server{$name}->set(bad => 0, hold => 0, huge => 0) } }

my @held;

# Many connections that have said half of a request.
sub flood ($port, $count, $half) {
    push @held, map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port,
        Timeout => 1) // () } 1 .. $count;
    syswrite $_, $half for @held;
}

sub fill {
    open my $fh, '>', "$dir/disk/filler" or die "filler: $!\n";
    1 while syswrite $fh, "\0" x 65536;
    1 while syswrite $fh, "\0" x 64;
}

# Neither half of a key stays where there is no room for it.
sub no_key {
    my @names = key_names($keys);
    my ($status, undef, $err) = $t->run_identity([qw(keys add)], %env);
    isnt $status, 0, 'disk full: no key is made';
    like $err, qr/\A[^\n]*No space left[^\n]*\n\z/, 'disk full: as one line says';
    is_deeply [ key_names($keys) ], \@names, 'disk full: the keys are as they were';
}

# A login takes memory; that there is none is not held against whoever logs in.
sub no_login {
    is_problem($s->login('several'), 503, 'AUTH_BUSY', 'no memory: a login is');
}

# A group of processes that may take no more than two megabytes from here on: a login
# takes nineteen, and the kernel ends the process.
my ($group) = grep { mkdir $_ } map {"$_/platform-test-$$"} grep {-w} '/sys/fs/cgroup/memory';
END { rmdir $group if $group }

sub crowd ($pid) {
    my %set = ('memory.limit_in_bytes' => 2 << 20, 'cgroup.procs' => $pid);
    for my $file (sort { $b cmp $a } keys %set) {
        open my $fh, '>', "$group/$file" or die "$file: $!\n";
        syswrite $fh, $set{$file} or die "$file: $!\n";
    }
    ok eventually(sub { (eval { $s->login('several')->status } // 0) == 502 }),
        'memory group: the kernel ends the process';
}

# [ name, begin, end, { whose log => what it says }, requests that may fail; undef: any ].
# Those of $LONG are for the soak; by themselves, other tests have them too.
my $LONG = qr/slow|huge|another set|half requests/;
my @faults = (
    [ 'nothing' => sub { }, sub { }, undef, 0 ],
    [ 'database: reads only', sub { root('alter system set default_transaction_read_only = on');
            root('select pg_reload_conf()') },
        sub { root('alter system reset default_transaction_read_only');
            root('select pg_reload_conf()') }, { identity => qr/"db\.[a-z_]+"/ }, undef ],
    [ 'database: no connection left',
        sub { root('alter role platform connection limit 0'); cut() },
        sub { root('alter role platform connection limit -1') },
        { identity => qr/"db\.[a-z_]+"/ }, undef ],
    [ 'database: kill -9', sub { $pg->stop('KILL') }, sub { $pg->start },
        { identity => qr/"db\.[a-z_]+"/ }, undef ],
    [ 'database: hangs', sub { $pg->freeze('STOP'); sleep 1.2 }, sub { $pg->freeze('CONT') },
        { identity => qr/"db\.[a-z_]+"/ }, undef ],
    [ 'identity: kill -9', sub { $identity->stop('KILL') }, sub { $identity->start },
        { nginx => qr/connect\(\) to unix/ }, undef ],
    [ 'identity: no descriptor left', sub { limit(nofile => 6, $identity->pid) },
        sub { limit(nofile => undef, $identity->pid) }, { identity => qr/"fcgi.accept"/ }, undef ],
    [ 'identity: no memory left', sub { limit(as => \&memory, $identity->pid); no_login() },
        sub { limit(as => undef, $identity->pid);
            ok eventually(sub { $s->login('several')->status == 200 }), 'memory: a login is done' },
        { identity => qr/"auth\.hash\.no_memory"/ }, undef ],
    $group ? [ 'identity: killed for its memory',
        sub { crowd($identity->pid); $identity->stop('KILL') }, sub { $identity->start },
        { nginx => qr/connect\(\) to unix/ }, undef ] : (),
    [ 'identity: half requests', sub {
            push @held, map { my $c = $t->fcgi($socket); $c->send("\1\1\0\1"); $c } 1 .. 200 },
        sub { @held = () }, undef, undef ],
    [ 'gateway: a worker, kill -9', sub { kill 'KILL', ($nginx->workers)[0] }, sub { },
        { nginx => qr/exited on signal 9/ }, undef ],
    [ 'gateway: all, kill -9', sub { $nginx->stop('KILL') }, sub { $nginx->start },
        undef, undef ],
    [ 'gateway: reload', sub { $nginx->reload }, sub { $nginx->settled }, undef, 0 ],
    [ 'gateway: no descriptor left', sub { limit(nofile => 6, $nginx->workers) },
        sub { limit(nofile => undef, $nginx->workers) },
        { nginx => qr/Too many open files/ }, undef ],
    [ 'gateway: no connection left', sub { flood($s->gateway, 220, "GET / HTTP/1.1\r\n") },
        sub { @held = () },
        { nginx => qr/worker_connections are not enough/ }, undef ],
    [ 'gateway: no memory left', sub { limit(as => \&memory, $nginx->workers);
            # until workers have nothing left over of the connections before
            for (1 .. 4) {
                flood($s->gateway, 40, "GET / HTTP/1.1\r\n" . ('X: ' . 'x' x 7000 . "\r\n") x 4);
                last if eventually(sub { log_of('nginx') =~ /Cannot allocate memory/ }, 0.5);
            } },
        sub { limit(as => undef, $nginx->workers); @held = () },
        { nginx => qr/Cannot allocate memory/ }, undef ],
    map({ my ($what, %is) = @$_;
        map({ [ "$_: $what", server($_, %is), good($_),
            { nginx => qr/platform gateway: / }, 0 ] } qw(issuer feed)) }
        [ 'garbage', raw => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n\0\377{\"keys\"" ],
        [ 'huge', huge => 1 ],
        [ 'slow', hold => 1 ],
        [ 'another set', body => '{"keys":[],"revocations":[]}' ]),
    $small ? [ 'disk full', sub { fill(); no_key() }, sub { unlink "$dir/disk/filler" },
        { nginx => qr/key cache file .* not written: [^;]* failed \(28: No space left/ }, 0 ] : (),
);

my $nginx_log = "$dir/logs/error.log";
sub log_of ($where) {
    return $t->read_file($where eq 'nginx' ? $nginx_log : "$dir/identity.log") // '';
}

sub well {
    return !grep { (eval { http_get($_, '/readyz')->status } // 0) != 200 } $s->gateway, $s->face;
}

# What it gets for a session that no client has: a call, or a logout; 0: no answer.
my $PATIENCE = 1;    # seconds; while nothing answers it is asked again and again
sub says ($what, $one) {
    $one->{access} //= jwt_token(branch => $key, iss => $issuer, session_id => $one->{id});
    local $Platform::Test::Http::TIMEOUT = $PATIENCE;
    my $res = eval { $what eq 'call' ? $s->current_context($one->{access})
        : $s->post("/api/auth/$what", { refreshToken => $one->{current} }) } // return 0;
    $one->{current} = $res->json->{refreshToken} if $what eq 'refresh' && $res->status == 200;
    return $res->status;
}

# The answers that clients got, and the wrong ones.
sub answers { return map { [ split ' ' ] } grep {/^\d/} $clients->lines }

# The clients go on: each has an answer, and a forged token is refused.
sub go_on ($since) {
    return eventually(sub {
        my @new = grep { $_->[0] > $since && $_->[3] < 500 && $_->[3] } answers();
        return @new > $CLIENTS && grep { "@$_[2, 3]" eq 'forged 401' } @new;
    }, 30);
}

my $probe = shift @spare;
my @rows;
for my $fault (grep { $_->[0] =~ /$only/ } @faults) {
    my ($name, $begin, $end, $log, $worst) = @$fault;
    next if $name =~ $LONG && !$ENV{FAULT_SECONDS};
    # A sanitizer and valgrind end where they are refused memory.
    next if $name =~ /left$/ && (Platform::Test::Env::asan() || Platform::Test::Env::valgrind());
    my $ended = shift @spare;
    truncate $_, 0 for grep { -e } map {"$dir/disk/$_.log"} qw(access identity);
    $PATIENCE = 30;
    is_deeply [ well(), map { says(call => $_) } $ended, $probe ], [ 1, 200, 200 ],
        "$name: control: all is well";
    $PATIENCE = 1;
    my ($where, $pattern) = %{ $log // {} };
    my $from = length log_of($where // 'nginx');
    my $lines = sub { return !$where ? () : grep { /$pattern/ } split /\n/,
        substr log_of($where), $from };

    my ($from_time, $floods) = time;
    $rows[-1]{until} = $from_time if @rows;
    $begin->();
    ok eventually(sub { $lines->() }, 20), "$name: $where says so" if $where;
    sleep 0.05 while time < $from_time + $SECONDS;
    $floods = @held;
    like says(logout => $ended), qr/^(?:200|5\d\d|0)$/, "$name: a logout is done, or refused";
    my $over = time;
    $end->();
    ok eventually(sub { well() && says(call => $probe) == 200
        && says(refresh => $probe) == 200 }, 30), "$name: passes by itself";
    my $back = time;
    ok eventually(sub { says(logout => $ended) == 200 && says(call => $ended) == 401 }, 20),
        "$name: who logged out is out";
    ok go_on($back), "$name: clients go on";

    if ($where) {
        my @lines = $lines->();
        note @lines . " lines, $lines[0]";
        my $bad = $floods + grep { $_->[0] > $from_time && ($_->[3] >= 500 || !$_->[3]) } answers();
        cmp_ok scalar @lines, '<=', 10 + $bad + 5 * (time - $from_time), "$name: it floods no log";
    }
    push @rows, { name => $name, from => $from_time, over => $over, back => $back,
        to => time, worst => $worst };
}
$t->write_file('enough', '');
ok $clients->ends(60), 'the clients end';

# -- the verdict

my @answers = answers();
my @wrong = map { [ split ' ', s/^wrong //r ] } grep {/^wrong/} $clients->lines;
for my $row (@rows) {
    my ($from, $over, $to) = @$row{qw(from over to)};
    # What is still under way when the next fault begins may be that one's.
    my $until = $row->{until} // time;
    my @in = grep { $_->[0] >= $from && $_->[0] < $to && $_->[1] < $until } @answers;
    my @bad = grep { !$_->[3] || $_->[3] >= 500 } @in;
    my @not = grep { $_->[0] >= $from && $_->[0] < $to } @wrong;
    my $back = max($row->{back} - $over, map { $_->[1] - $over } grep { $_->[0] > $over } @bad);
    my %kinds;
    $kinds{"$_->[2] $_->[3]"}++ for @in;
    note sprintf '| %s | %.1f s | %d | %d | %d | %d | %.1f |', $row->{name}, $over - $from,
        scalar @in, scalar @bad, scalar @not, scalar(grep { $_->[1] eq 'refresh' } @not), $back;
    note '    ', join ', ', map {"$_: $kinds{$_}"} sort keys %kinds;
    is_deeply \@not, [], "$row->{name}: no answer is wrong, no session is lost";
    cmp_ok scalar @bad, '<=', $row->{worst}, "$row->{name}: nobody notices"
        or diag explain \@bad if defined $row->{worst};
    cmp_ok scalar(grep { $_->[2] eq 'forged' && $_->[3] == 401 } @in), '>', 0,
        "$row->{name}: a forged token was refused";
}
is_deeply [ $pg->sql("select count(*) from auth_sessions where status = 'REVOKED'") ],
    [ scalar @rows ], 'every session that was ended, and no other';

$t->done;
