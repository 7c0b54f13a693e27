# The access log of an installation is buffered: no line is lost on reload, reopening, stop
# and binary upgrade, and if a worker is killed only those that it had not written.

use Platform::Test;

my $t = Platform::Test->new;
my $port = $t->port('gateway');
$t->allow(qr/connect\(\) to unix:\S+ failed/, qr/exited on signal 9/);

# An nginx with an empty log; flush => how long lines stay in the buffer.
sub rendered (%o) {
    my $nginx = $t->render_nginx({ PLATFORM_REVOCATIONS_ENABLED => 'false',
        PLATFORM_HTTP_ACCESS_LOG_BUFFER => $o{buffer} // '' }, '/run/no.sock');
    for my $file ($o{flush} ? map {"rendered/$_.conf"} qw(gateway identity) : ()) {
        $t->write_file($file, $t->read_file($file) =~ s/ flush=1s;/ flush=$o{flush};/gr);
    }
    unlink $nginx->{access}, "$nginx->{access}.1";
    return $nginx;
}

sub started (%o) { return $t->track(rendered(%o))->start }

sub ask ($count) { http_get($port, '/healthz') for 1 .. $count; return }

# The requests that are in the log, or in the one that was renamed.
sub lines ($nginx) {
    return scalar(() = join('', map { $t->read_file($_) // '' }
        "$nginx->{access}.1", $nginx->{access}) =~ m{"path":"/healthz".*"durationMs":.*\}\n}g);
}

my $nginx = started();
like $t->read_file('rendered/gateway.conf'), qr/^\s+access_log \S+ platform buffer=64k flush=1s;$/m,
    'the default';
ask(1);
ok eventually(sub { lines($nginx) == 1 }), 'a line comes by itself';
$nginx->stop;

# What happens to them after half of the requests; what is left to do after the others.
for my $case (
    [ 'reload' => sub { $nginx->reload }, 'QUIT' ],
    [ 'reopened' => sub {
        rename $nginx->{access}, "$nginx->{access}.1";
        $nginx->signal('USR1');
        eventually(sub { -e $nginx->{access} && lines($nginx) == 20 });
    }, 'QUIT' ],
    [ 'stopped at once' => undef, 'TERM' ],
    [ 'stopped' => undef, 'QUIT' ])
{
    my ($name, $do, $signal) = @$case;
    $nginx = started(flush => '1h');
    ask(20);
    is lines($nginx), 0, "$name: all lines are in the buffers before";
    $do->() if $do;
    ask(20);
    $nginx->stop($signal);
    is lines($nginx), 40, "$name: all lines";
}

SKIP: {
    skip 'needs a plain build', 5 if Platform::Test::Env::valgrind() || Platform::Test::Env::asan();
    # nginx upgrades itself only as a daemon.
    $nginx = rendered(flush => '1h');
    $nginx->{args} = [];
    $t->process('daemon', cmd => [ $nginx->_command ])->expect_end->wait_end(60);
    my $pid = sub ($of = '') { ($t->read_file("$nginx->{pidfile}$of") // '') =~ /(\d+)/ ? $1 : 0 };
    ok eventually(sub { $pid->() }), 'a daemon';
    ask(20);
    kill USR2 => $pid->();
    ok eventually(sub { $pid->('.oldbin') && $pid->() }), 'another nginx beside it';
    ask(20);
    kill QUIT => $pid->('.oldbin');
    ok eventually(sub { !$pid->('.oldbin') }), 'the old one is gone';
    ask(20);
    kill QUIT => $pid->();
    ok eventually(sub { !$pid->() }), 'and the other';
    is lines($nginx), 60, 'binary upgrade: all lines';
}

for my $case ([ 'buffered' => '64k', 27 ], [ 'control, off' => 'off', 32 ]) {
    my ($name, $buffer, $left) = @$case;
    $nginx = started(flush => '1h', buffer => $buffer);
    ask(20);
    $nginx->signal('USR1');
    ok eventually(sub { lines($nginx) == 20 }), "$name: 20 lines are written";
    ask(5);
    my @killed = $nginx->workers;
    kill KILL => @killed;
    ok eventually(sub { !grep({ kill 0, $_ } @killed) && $nginx->workers >= @killed }), "$name: killed";
    ask(7);
    $nginx->stop('QUIT');
    is lines($nginx), $left, "$name: what was written is there, and all after it";
}

$t->done;
