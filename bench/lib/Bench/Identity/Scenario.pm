package Bench::Identity::Scenario;

# What is measured, section by section.  Each gives { cells => { "BACKEND/N" =>
# figures at N connections }, floors, goals }.

use strict;
use warnings;

use Platform::Test;

use Bench::Identity::Growth;
use Bench::Identity::Measure;
use Bench::Identity::Stage;
use Bench::Identity::Stats;

my $CREDENTIAL = 'Demo-passw0rd!';
my $HARBOUR_EAST = '00000000-0000-4000-8000-000500000031';
our $SESSIONS = 10_000;

# name => { title, setup => sub ($stage, $o) giving { "BACKEND/N" => sub giving
# arguments of load }, floors => [...], goals => sub ($round) }
our @ORDER = qw(refresh login select logout keyset health growth);
our %SECTION = (
    refresh => {
        title  => 'refresh, chained: each client uses the token it just got',
        setup  => \&_refresh,
        floors => [qw(sign verify)],
        goals  => \&_refresh_goals,
        updates => 1,
    },
    login => {
        title  => 'login',
        setup  => \&_login,
        floors => [qw(sign argon2id)],
        goals  => \&_login_goals,
    },
    select => { title => 'select-branch', setup => \&_select },
    logout => { title => 'logout', setup => \&_logout },
    keyset => {
        title => 'key set',
        setup => sub { return _get($_[1], '/.well-known/jwks.json') },
    },
    health =>
        { title => 'health', setup => sub { return _get($_[1], '/healthz') } },
    growth => {
        title => 'refresh, by the number of sessions in the table',
        setup => \&Bench::Identity::Growth::setup,
        goals => \&Bench::Identity::Growth::goals,
        facts => \&Bench::Identity::Growth::facts,
        stage => \&Bench::Identity::Growth::stage,
    },
);

sub _json { return ('--method', 'POST', '--path', "/api/auth/$_[0]",
    '--body', $_[1]) }

sub _refresh {
    my ($stage, $o) = @_;

    my @args = (_json(refresh => '{"refreshToken":"@"}'), '--chain',
        '--seconds', $o->{seconds});
    my ($next, %run) = (1);
    for my $c (@{ $o->{connections} }) {
        my @numbers = $next .. $next + $c - 1;
        my $pool = $stage->mint("refresh-$c", $SESSIONS, @numbers);
        my $decoy = $stage->mint("floor-$c", $SESSIONS, $next);
        $next += $c;
        my @both = ('--connections', $c, @args);
        $run{"identity/$c"} = sub {
            my ($again) = @_;
            if ($again) {    # a refused round leaves stale tokens behind
                $stage->reset('platform', @numbers);
                $stage->mint("refresh-$c", $SESSIONS, @numbers);
            }
            return (@both, '--pool', $pool);
        };
        # The floor answers with one and the same token.
        my $copies = _copies($stage, $decoy, $c);
        $run{"floor/$c"} = sub { return (@both, '--pool', $copies) };
    }
    _start_floor($stage, $next);
    return \%run;
}

sub _copies {
    my ($stage, $file, $n) = @_;

    open my $fh, '<', $file or die "$file: $!\n";
    my $token = <$fh>;
    my ($name) = $file =~ m{([^/]*)$};
    return $stage->t->write_file("$name.copies", $token x $n);
}

# It works on the sessions nobody else uses, and answers with bytes that the
# service gave for one of them.
sub _start_floor {
    my ($stage, $n) = @_;

    my $file = $stage->mint('floor-answer', $SESSIONS, $n);
    open my $fh, '<', $file or die "$file: $!\n";
    chomp(my $token = <$fh>);
    my $res = http_post($stage->port('identity'), '/api/auth/refresh',
        json => { refreshToken => $token });
    die 'refresh: ' . $res->status . ' ' . $res->body if $res->status != 200;
    my @keep = grep { $_->[0] =~ /^(?:Content-|Cache-|Set-Cookie)/i }
        $res->headers;
    $stage->start_floor(
        [ map { session_id($_) } $SESSIONS / 2 + 1 .. $SESSIONS ],
        join('', (map {"$_->[0]: $_->[1]\r\n"} @keep), "\r\n", $res->body));
    return;
}

# With one client there is no goal: between its requests the cores sleep, and
# the floors are those of cores that do not.
sub _judged {
    my ($value, $c, $relation, $limit) = @_;

    return [ $value, $c == 1 ? undef : $relation, $limit ];
}

sub _refresh_goals {
    my ($round, @connections) = @_;

    my %value;
    for my $c (@connections) {
        my ($id, $floor) = @{ $round->{cells} }{ "identity/$c", "floor/$c" };
        next unless $id && $floor;
        my $f = $round->{at}{$c}{floors}{all};
        my $crypto = 2 * $f->{sign} + $f->{verify};
        $value{"refresh, identity CPU / (2 signs + 1 verify), $c"}
            = _judged($id->{cpu}{identity} / $crypto, $c, '<=', 1.15);
        $value{"refresh, floor program's CPU / (2 signs + 1 verify), $c"}
            = [ $floor->{cpu}{identity} / $crypto ];
        $value{"refresh, rate / the floor program's, $c"}
            = _judged($id->{rate} / $floor->{rate}, $c, '>=', 0.80);
    }
    return %value;
}

# Logins of 64 clients at once need places for 64 that hash or wait, and half
# of the threads are that.
our %LOGIN_ENV = (
    PLATFORM_WORKER_THREADS => 128,
    PLATFORM_DB_POOL_SIZE   => 16,
);

sub _login {
    my ($stage, $o) = @_;

    my $accounts = $stage->t->write_file('login.accounts',
        join '', map {"bench$_\@bench.test\n"} 1 .. 1000);
    return {
        map {
            my @args = ('--connections', $_, _json(login =>
                qq({"account":"\@","credential":"$CREDENTIAL"})),
                '--pool', $accounts, '--seconds', $o->{seconds});
            ("login/$_" => sub { return @args })
        } @{ $o->{connections} }
    };
}

sub _login_goals {
    my ($round, @connections) = @_;

    my %value;
    for my $c (@connections) {
        my $id = $round->{cells}{"login/$c"} or next;
        my $f = $round->{at}{$c}{floors}{all};
        $value{"login, identity CPU / (1 Argon2id verify + 2 signs), $c"}
            = _judged($id->{cpu}{identity} / ($f->{argon2id} + 2 * $f->{sign}),
            $c, '<=', 1.10);
    }
    return %value;
}

# Every client switches its own session to a branch, again and again.
sub _select {
    my ($stage, $o) = @_;

    my %run;
    for my $c (@{ $o->{connections} }) {
        my @tokens = map {
            my $res = http_post($stage->port('identity'), '/api/auth/login',
                json => { account => 'several@demo.test',
                    credential => $CREDENTIAL });
            $res->json->{accountAccessToken}
                // die 'login: ' . $res->status . "\n";
        } 1 .. $c;
        my $pool = $stage->t->write_file("select-$c.tokens",
            join '', map {"$_\n"} @tokens);
        my @args = ('--connections', $c, '--bearer', '--pool', $pool,
            _json('select-branch', qq({"branchId":"$HARBOUR_EAST"})),
            '--seconds', $o->{seconds});
        $run{"identity/$c"} = sub { return @args };
    }
    return \%run;
}

# Each logout ends a session that is active: they are activated anew before
# each round, as no client could.
sub _logout {
    my ($stage, $o) = @_;

    my $requests = $o->{quick} ? 300 : 3000;
    my $pool = $stage->mint('logout', $SESSIONS, 1001 .. 1000 + $requests);
    my $again = "set session_replication_role = replica;
        update auth_sessions set status = 'ACTIVE', revoked_at = null
         where status = 'REVOKED'";
    return {
        map {
            my @args = ('--connections', $_, '--once', '--pool', $pool,
                _json(logout => '{"refreshToken":"@"}'),
                '--requests', $requests);
            ("identity/$_" => sub {
                $stage->pg->sql($again, user => 'postgres');
                return @args;
            })
        } @{ $o->{connections} }
    };
}

sub _get {
    my ($o, $path) = @_;

    return {
        map {
            my @args = ('--connections', $_, '--path', $path, '--seconds',
                $o->{seconds} / 2);
            ("identity/$_" => sub { return @args })
        } @{ $o->{connections} }
    };
}

# -- rounds -----------------------------------------------------------------------

# Runs a section's rounds.  Backends alternate, and change places each round.
sub run {
    my ($stage, $name, $o) = @_;

    my $section = $SECTION{$name};
    my $run = $section->{setup}->($stage, $o);
    my @backends = sort keys %{ { map { (split m{/})[0] => 1 } keys %$run } };
    for my $cell (sort keys %$run) {    # connections, statements, caches
        load_round($stage, (split m{/}, $cell)[0], $run->{$cell}->())
            // die "$name does not work\n";
    }
    my @rounds;
    for my $n (1 .. $o->{rounds}) {
        my $round = { cells => {} };
        $round->{updates} = calibrate_updates($stage, $o->{calibrate_ms})
            if $section->{updates};
        for my $c (@{ $o->{connections} }) {
            $round->{at}{$c}{floors} = calibrate($stage, $o->{calibrate_ms},
                @{ $section->{floors} })
                if $section->{floors};
            for my $backend ($n % 2 ? @backends : reverse @backends) {
                next unless $run->{"$backend/$c"};
                $round->{cells}{"$backend/$c"} = _try($stage, $backend,
                    $run->{"$backend/$c"});
            }
        }
        push @rounds, $round;
        print STDERR "$name: round $n of $o->{rounds}\n";
    }
    my $result = summarise($section, \@rounds, $o);
    $result->{facts} = $section->{facts}->($stage, $o, \@rounds)
        if $section->{facts};
    return $result;
}

# A round that had an error is measured again, a few times.
sub _try {
    my ($stage, $backend, $args) = @_;

    for my $try (1 .. 3) {
        my $got = load_round($stage, $backend, $args->($try > 1));
        return $got if $got;
        sleep 3;    # what it left in flight ends
    }
    die "three refused rounds of $backend in a row\n";
}

sub summarise {
    my ($section, $rounds, $o) = @_;

    my (%cells, %floors, %goals);
    for my $cell (keys %{ $rounds->[0]{cells} }) {
        my @got = map { $_->{cells}{$cell} } @$rounds;
        my %figures = map {
            my $f = $_;
            $f => summary(map { $_->{$f} } @got)
        } qw(rate mean_us p50_us p99_us requests);
        for my $who (keys %{ $got[0]{cpu} }) {
            $figures{cpu}{$who} = summary(map { $_->{cpu}{$who} } @got);
        }
        $cells{$cell} = \%figures;
    }
    my @at = map { $_->{floors} } grep {defined} map { values %{ $_->{at} } }
        @$rounds;
    for my $load (@at ? keys %{ $at[0] } : ()) {
        for my $kind (@{ $section->{floors} }) {
            $floors{$load}{$kind} = summary(map { $_->{$load}{$kind} } @at);
        }
    }
    for my $clients (keys %{ $rounds->[0]{updates} // {} }) {
        $floors{updates}{$clients}
            = summary(map { $_->{updates}{$clients} } @$rounds);
    }
    if ($section->{goals}) {
        my %values;
        for my $round (@$rounds) {
            my %v = $section->{goals}->($round, @{ $o->{connections} });
            push @{ $values{$_} }, $v{$_} for keys %v;
        }
        $goals{$_} = goal($values{$_}) for keys %values;
    }
    return { cells => \%cells, floors => \%floors, goals => \%goals };
}

# Values of all rounds, each [value, relation, limit], as one verdict.
sub goal {
    my ($values) = @_;

    my (undef, $relation, $limit) = @{ $values->[0] };
    my $value = summary(map { $_->[0] } @$values);
    my $m = $value->{median};
    return { value => $value, relation => $relation, limit => $limit,
        pass => !defined $relation ? undef
        : $relation eq '<=' ? $m <= $limit ? 1 : 0
        : $m >= $limit ? 1 : 0 };
}

1;
