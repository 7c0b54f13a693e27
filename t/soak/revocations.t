# 200 logouts at random times under load: how long until two nginx of two workers
# each refuse the session everywhere, and whether anybody else is refused; then
# the same while identity is killed and restarted, and while a standby takes over.

use Platform::Test;
use Time::HiRes qw(time);

my $LOGOUTS = $ENV{SOAK_LOGOUTS} // 200;
my $CLIENTS = 8;

my $t = Platform::Test->new(timeout => 600);
my ($primary, $standby) = $t->postgres_pair;
my $stack = $t->full_stack(env => { $primary->env,
    PLATFORM_DB_HOST            => join(',', $primary->host, $standby->host),
    PLATFORM_DB_CONNECT_TIMEOUT => '1s', PLATFORM_DB_STATEMENT_TIMEOUT => '1s',
    PLATFORM_REQUEST_TIMEOUT    => '3s', PLATFORM_AUTH_MAX_FAILURES => 100_000 });
my $second = Platform::Test->new(timeout => 600);
$second->track($second->render_nginx({ %{ $stack->{env} },
    PLATFORM_ENTITLEMENT_URL => 'http://127.0.0.1:' . $t->port('stub') },
    $stack->identity->address))->start;
my @gate = ($stack->gateway, $second->port('gateway'));
ok eventually(sub { http_get($gate[1], '/readyz')->status == 200 }, 20), 'two nginx';

# What a gateway answers to a token on a connection that stays.
sub ask ($c, $token) {
    $c->{http} //= Platform::Test::Http->new(port => $c->{port});
    my $res = eval { $c->{http}->request(
        GET => '/api/workspaces/current-context', token => $token) };
    delete $c->{http} if !$res;
    return $res ? $res->status : 0;
}

sub let_in ($c, $token) {
    my $status = ask($c, $token);
    print "wrong $status\n" if $status && $status != 200;
}

# Some connections to each, so that each of the workers has one.
sub connections { return map { { port => $_ } } map { ($_) x 4 } @gate }

# Waits for a login, as identity may be away.
sub login {
    my $res;
    eventually(sub { $res = eval { $stack->login('one') }; $res && $res->status == 200 }, 30)
        or die "no login\n";
    return $res->json;
}

# One that logs out again and again: "took SECONDS" for each from the 200 to the
# last time that anybody let it in, "wrong STATUS" for one refused before.
sub one_client ($n) {
    my @c = connections();
    for (1 .. $n) {
        my $login = login();
        let_in($_, $login->{accessToken}) for @c;
        sleep rand 1;
        my $res = eval { $stack->post('/api/auth/logout',
            { refreshToken => $login->{refreshToken} }) };
        redo if !$res || $res->status != 200;
        my ($since, $last) = (time, 0);
        while (1) {
            my $in = 0;
            for my $c (@c) {
                my $sent = time;
                next if ask($c, $login->{accessToken}) == 401;
                ($in, $last) = (1, $sent - $since);
            }
            last if !$in;
            print "never\n" and last if time - $since > 30;
            sleep 0.01;
        }
        printf "took %.3f\n", $last;
    }
}

# One that goes on all the time: "wrong STATUS" where it was refused.
sub load ($enough) {
    my @c = connections();
    my $token = login()->{accessToken};
    my $n = 0;
    until (-e $enough) {
        let_in($_, $token), $n++ for @c;
        sleep 0.002;
    }
    print "asked $n\n";
}

# Runs all, with what happens meanwhile; a figure of how long they took.
sub round ($name, $n, $meanwhile = sub { }) {
    my $enough = $t->dir . "/$name.enough";
    my $load = Platform::Test::Crowd->new($t, "$name-load", 2, sub { load($enough) });
    my $clients = Platform::Test::Crowd->new($t, "$name-client", $CLIENTS,
        sub { one_client($n / $CLIENTS) });
    $meanwhile->();
    ok $clients->ends(300), "$name: the clients end";
    $t->write_file("$name.enough", '');
    ok $load->ends(60), "$name: the load ends";
    my @said = map { $_->lines } $clients, $load;
    my @took = sort { $a <=> $b } map {/^took (.*)/} @said;
    my $asked = $load->sums->{asked};
    is scalar @took, $n, "$name: all $n were refused in the end";
    is join(', ', grep { !/^(?:took|asked)/ } @said), '',
        "$name: and nobody else, of $asked requests";
    note sprintf '%s: median %.3f s, p99 %.3f s, most %.3f s', $name,
        map { $took[ $_ * $#took ] } 0.5, 0.99, 1;
    return $took[ 0.99 * $#took ];
}

cmp_ok round('quiet', $LOGOUTS), '<=', 1.0, 'p99 is a second at most';

cmp_ok round('killed', $LOGOUTS, sub {
    for (1 .. 5) {
        sleep 2;
        $stack->identity->stop('KILL');
        $stack->identity->start;
    }
}), '<=', 1.0, 'with identity killed and restarted, p99 is a second at most';

round('promoted', $LOGOUTS, sub {
    sleep 4;
    $primary->stop('KILL');
    $standby->promote;
    $standby->setting("synchronous_standby_names = ''");
});

$second->finish;
$t->done;
