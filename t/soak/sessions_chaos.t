# Sixty-four clients refresh, select and log out the same sessions at random
# while PostgreSQL is restarted three times and an identity process is killed
# twice: whoever got a 200 can go on with what it got, whoever logged out is
# out, and nobody waits for long.

use JSON::PP;
use Platform::Test;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Time::HiRes qw(time);

my $SECONDS = $ENV{SOAK_SECONDS} // 60;
my $REQUEST_TIMEOUT = 5;

my $t = Platform::Test->new(timeout => $SECONDS + 180);
my $pg = $t->postgres(durable => 1);
my @identity = map { $t->identity(
    name => $_,
    PLATFORM_REQUEST_TIMEOUT    => "${REQUEST_TIMEOUT}s",
    PLATFORM_AUTH_MAX_FAILURES  => 100000,    # all log in to one account
) } qw(a b);
$t->set(UPSTREAM => join ' ',
    map { 'server ' . $_->nginx_address . ' fail_timeout=1s;' } @identity);
$t->nginx_conf(<<'CONF');
%%GLOBALS%%
events { }
http {
    %%GLOBALS_HTTP%%
    upstream identity { %%UPSTREAM%% }
    server {
        listen 127.0.0.1:%%PORT_identity%%;
        keepalive_requests 1000000;
        location / {
            include %%ROOT%%/nginx.conf.d/identity_fastcgi_params;
            fastcgi_pass identity;
        }
    }
}
CONF
$t->start_nginx;
ok eventually(sub { http_get($t->port('identity'), '/readyz')->status == 200 }, 20), 'ready';

# -- the clients, in a process of their own

my $result = $t->dir . '/result.json';
my $clients = fork // die "fork: $!\n";
if ($clients == 0) {
    my $ok = eval { clients(); 1 };
    print STDERR $@ unless $ok;
    require POSIX;
    POSIX::_exit($ok ? 0 : 1);
}

sub one_of { return $_[ rand @_ ] }

sub clients {
    srand 20;    # the same dice every time; the timing is chance enough
    my $load = Platform::Test::Load->new(
        port => $t->port('identity'), clients => 64, timeout => 20);
    my $sessions = Platform::Test::Sessions->new;
    my (@pool, $logging_in);

    my $done = sub {
        $logging_in-- if $_[0]{path} =~ /login$/;
        $sessions->note(@_);
    };
    my $end = time + $SECONDS;
    my $next = sub {
        return undef if time > $end;
        @pool = grep { !$_->{logout_done} && !$_->{doubt} } $sessions->all
            if rand() < 0.1 || !@pool;
        if (@pool + ($logging_in // 0) < 24) {
            $logging_in++;
            return $sessions->login('several');
        }
        my $s = @pool ? one_of(@pool) : return $sessions->login('several');
        my $dice = rand;
        return $sessions->logout($s)        if $dice < 0.01;
        return $sessions->select_branch($s) if $dice < 0.35;
        # Now and then a token that may long have been replaced.
        return $sessions->refresh($s, $s->{issued}{ one_of(@{ $s->{order} }) })
            if $dice < 0.4;
        return $sessions->refresh($s);
    };
    $load->run($next, $done);
    my $storm = { %{ $sessions->{count} } };
    $sessions->check_stale;

    # Calm again.  What was handed out last works, unless somebody wanted it
    # ended; of sessions that ended, nothing works.
    my @after = map { $sessions->refresh($_), $sessions->select_branch($_) }
        $sessions->usable;
    my %calm;
    $load->run(sub { shift @after }, sub {
        my ($request, $answer) = @_;
        $calm{ "$request->{path} $answer->{status} $answer->{code}" }++;
        $sessions->note(@_);
    });
    my %over;
    for my $s (grep { $_->{logout_done} } $sessions->all) {
        my @tail = reverse @{ $s->{order} };
        push @after, map { $sessions->refresh($s, $s->{issued}{$_}) }
            grep { defined } @tail[ 0 .. 2 ];
        push @after, $sessions->select_branch($s);
    }
    my %longest = (longest => $sessions->{longest});
    $load->run(sub { shift @after }, sub ($request, $answer, @) {
        $over{ "$answer->{status} $answer->{code}" }++;
    });

    open my $fh, '>', $result or die "$result: $!\n";
    print {$fh} encode_json({
        %longest,
        storm    => $storm,
        calm     => \%calm,
        over     => \%over,
        broken   => $sessions->{broken},
        sessions => { map { $_->{id} => {
            done  => $_->{logout_done} ? 1 : 0,
            asked => $_->{logout_sent} ? 1 : 0,
            doubt => scalar keys %{ $_->{in_doubt} // {} },
            jti   => Platform::Test::Sessions::jti($_->{current}),
        } } $sessions->all },
    });
    close $fh or die "$result: $!\n";
}

# -- the chaos

my $start = time;
my @acts = (
    [ 0.10, sub { $pg->stop('INT'); $pg->start },  'restart in order' ],
    [ 0.25, sub { $identity[0]->stop('KILL'); sleep 0.3; $identity[0]->start }, 'a killed' ],
    [ 0.45, sub { $pg->stop('QUIT'); $pg->start }, 'restart at once' ],
    [ 0.60, sub { $identity[1]->stop('KILL'); sleep 0.3; $identity[1]->start }, 'b killed' ],
    [ 0.75, sub { $pg->stop('INT'); sleep 1; $pg->start }, 'restart after a second' ],
);
for my $act (@acts) {
    my ($when, $do, $name) = @$act;
    sleep 0.05 while time < $start + $when * $SECONDS;
    my $begun = time;
    $do->();
    note sprintf '%s: %.1f s', $name, time - $begun;
}
waitpid $clients, 0;
is $?, 0, 'the clients came to their end';

# -- the verdict

open my $fh, '<', $result or die "$result: $!\n";
my $r = decode_json(do { local $/; <$fh> });
my %storm = %{ $r->{storm} };
note join "\n", map {"$_: $storm{$_}"} sort keys %storm;
note sprintf 'longest: %.2f s', $r->{longest};

my $all = 0;
$all += $storm{$_} for grep { $_ ne 'unknown' } keys %storm;
cmp_ok $all, '>=', 100 * $SECONDS, "$all requests";
cmp_ok $storm{'refresh 200 AUTH_REFRESH_SUCCESS'} // 0, '>=', 10 * $SECONDS, 'rotations';
cmp_ok $storm{'logout 200 AUTH_LOGOUT_SUCCESS'} // 0, '>=', $SECONDS / 3, 'logouts';
ok scalar(grep {/ 503 DATABASE_UNAVAILABLE/} keys %storm), 'the database was missed';
is_deeply $r->{broken}, [], 'no answer contradicts another';
cmp_ok $storm{unknown} // 0, '<', $all / 20, ($storm{unknown} // 0) . ' without an answer';
cmp_ok $r->{longest}, '<=', $REQUEST_TIMEOUT + 1, 'nobody waited for longer';

my @calm = keys %{ $r->{calm} };
is_deeply [ grep { !/ 200 / } @calm ], [],
    'what was handed out last works on' or diag explain $r->{calm};
is scalar @calm, 2, 'which was tried';
is_deeply [ keys %{ $r->{over} } ], ['401 AUTH_SESSION_NOT_ACTIVE'],
    'nothing of a session that ended does' or diag explain $r->{over};

# The rows tell the same story.

my %row = map { (split /\|/)[0] => [ split /\|/ ] } split /\n/,
    $pg->sql('select session_id, status, jti from auth_sessions');
my (@wrong, $ended, $lives);
for my $id (keys %{ $r->{sessions} }) {
    my $s = $r->{sessions}{$id};
    my (undef, $status, $jti) = @{ $row{$id} // ['', 'MISSING', ''] };
    $ended++ if $status eq 'REVOKED';
    $lives++ if $status eq 'ACTIVE';
    push @wrong, "$id is $status" if $s->{done}   ? $status ne 'REVOKED'
        : !$s->{asked}  ? $status ne 'ACTIVE'
        :                 $status !~ /^(?:ACTIVE|REVOKED)$/;
    push @wrong, "$id has another jti" if $jti ne $s->{jti} && !$s->{doubt};
}
is_deeply \@wrong, [], 'the rows say the same';
ok $ended && $lives, "$ended revoked, $lives active";
is $pg->sql("select count(*) from auth_sessions where
    num_nulls(workspace_id, member_id, active_branch_id) not in (0, 3)
    or (status = 'REVOKED') <> (revoked_at is not null)
    or revoked_at < created_at or expires_at <= created_at"), 0,
    'every row is legal';

$t->done;
