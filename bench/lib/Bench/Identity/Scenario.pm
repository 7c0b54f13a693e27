package Bench::Identity::Scenario;

# What is measured, section by section: which requests go to which backend over how
# many connections ("BACKEND/N"), round by round, and which figures have a goal.

use strict;
use warnings;

use Platform::Test;

use Bench::Figures;
use Bench::Identity::Growth;
use Bench::Identity::Stage;
use Bench::Wrk;

my $CREDENTIAL = 'Demo-passw0rd!';
my $HARBOUR_EAST = '00000000-0000-4000-8000-000500000031';
# Refreshes begin at the first ones, and the floor program works on those from
# the second on.
my ($SESSIONS, $REFRESH, $FLOOR) = (20_000, 1, 10_001);

my $ES256 = jwt_key('es256', alg => 'ES256');

# Logins of 64 clients at once need 64 threads that hash or wait for a slot, and half
# of all threads may do so.
my %LOGIN_ENV = (PLATFORM_WORKER_THREADS => 128, PLATFORM_DB_POOL_SIZE => 16);

# setup => sub ($stage, $o) giving { "BACKEND/N" => sub giving the path and
# arguments of wrk.lua, anew for each round }; goals => sub ($cells, $n,
# $floors) giving [what, ratio, limit, relation] of a round.
our @ORDER = qw(refresh algorithm token login select keyset growth);
our %SECTION = (
    refresh => {
        title  => 'refresh, chained: each client uses the token it just got',
        setup  => \&_refresh,
        floors => [qw(sign verify)],
        goals  => \&_refresh_goals,
    },
    algorithm => {
        title => 'refresh, with a key of RS256 and with one of ES256',
        setup => \&_algorithm,
        floors    => [qw(sign verify)],
        floor_key => $ES256,
        goals     => \&_algorithm_goals,
    },
    token => {
        title => 'tokens for programs (client_secret_basic), beside refreshes',
        setup => \&_token,
        goals => \&_token_goals,
    },
    login => {
        title  => 'login',
        setup  => \&_login,
        floors => [qw(sign argon2id)],
        goals  => \&_login_goals,
    },
    select => { title => 'select-branch', setup => \&_select },
    keyset => { title => 'key set', setup => \&_keyset },
    growth => {
        title => 'refresh, by the number of sessions in the table',
        setup => \&Bench::Identity::Growth::setup,
        goals => \&Bench::Identity::Growth::goals,
        stage => \&Bench::Identity::Growth::stage,
    },
);

# The stage of every section that makes none of its own.
sub stage {
    my (@names) = @_;

    my %wanted = map { $_ => 1 } @names;
    my $stage = Bench::Identity::Stage->new(floor => $wanted{refresh},
        extra => { $wanted{login} ? (login => \%LOGIN_ENV) : (),
            $wanted{algorithm} ? (ES256 => { $ES256->env }) : () });
    $stage->generate($SESSIONS, 'platform');
    return $stage;
}

sub _each { my ($o, $sub) = @_; return { map { $sub->($_) } @{ $o->{connections} } } }

sub _refresh {
    my ($stage, $o) = @_;

    my $next = $REFRESH;
    my $answer = $stage->mint('answer', $SESSIONS, $next++);
    my $token = $stage->t->read_file('answer.tokens') =~ s/\n//r;
    my $res = http_post($stage->port('identity'), '/api/auth/refresh',
        json => { refreshToken => $token });
    die 'refresh: ' . $res->status . ' ' . $res->body if $res->status != 200;
    # The floor program answers with bytes that the service gave.
    my @keep = grep { $_->[0] =~ /^(?:Content-|Cache-|Set-Cookie)/i }
        $res->headers;
    $stage->start_floor($FLOOR, $SESSIONS,
        join('', (map {"$_->[0]: $_->[1]\r\n"} @keep), "\r\n", $res->body));
    my @args = ('/api/auth/refresh', body => '{"refreshToken":"@"}',
        chain => 1);
    return _each($o, sub {
        my ($c) = @_;
        return ("identity/$c" => sub {
            $next += $c;
            die "too many rounds\n" if $next > $FLOOR;
            return (@args, words => $stage->mint("refresh-$c", $SESSIONS,
                $next - $c .. $next - 1));
        }, "floor/$c" => sub {
            return (@args, words => $stage->mint("floor-$c", $SESSIONS,
                $FLOOR .. $FLOOR + $c - 1));
        });
    });
}

# Two processes, each with a key of its own, on the same sessions in turn.
sub _algorithm {
    my ($stage, $o) = @_;

    my %next = (identity => 1, ES256 => $SESSIONS / 2);
    return _each($o, sub {
        my ($c) = @_;
        return map {
            my $backend = $_;
            ("$backend/$c" => sub {
                $next{$backend} += $c;
                return ('/api/auth/refresh', body => '{"refreshToken":"@"}', chain => 1,
                    words => $stage->mint_by($backend eq 'ES256' ? $ES256 : undef,
                        "$backend-$c", $SESSIONS,
                        $next{$backend} - $c .. $next{$backend} - 1));
            });
        } sort keys %next;
    });
}

sub _algorithm_goals {
    my ($cells, $c, $floors) = @_;

    my ($rs, $es) = @{$cells}{ "identity/$c", "ES256/$c" };
    my $crypto = 2 * $floors->{sign} + $floors->{verify};
    return ([ 'refresh, rate of ES256 / RS256', $es->{rate} / $rs->{rate},
            _limit($c, 1.90), '>=' ],
        [ 'refresh, identity CPU / (1.35 (2 signs + 1 verify) + 60 us), ES256',
            $es->{cpu}{identity} / (1.35 * $crypto + 60), _limit($c, 1) ]);
}

# Ten clients, in turn, beside refreshes of the same process.
my $CLIENTS = 10;

sub _token {
    my ($stage, $o) = @_;

    my $words = $stage->t->write_file('token.clients',
        join '', map {"$_\n"} $stage->clients($CLIENTS));
    $stage->alias(token => 'identity');
    my $next = $SESSIONS / 4;
    return _each($o, sub {
        my ($c) = @_;
        return ("token/$c" => sub {
            return ('/api/auth/token', auth => 'Basic', words => $words,
                type => 'application/x-www-form-urlencoded', body => 'grant_type=client_credentials');
        }, "identity/$c" => sub {
            $next += $c;
            return ('/api/auth/refresh', body => '{"refreshToken":"@"}', chain => 1,
                words => $stage->mint("token-$c", $SESSIONS, $next - $c .. $next - 1));
        });
    });
}

sub _token_goals {
    my ($cells, $c) = @_;

    return [ 'rate of tokens / of refreshes',
        $cells->{"token/$c"}{rate} / $cells->{"identity/$c"}{rate}, _limit($c, 1), '>=' ];
}

# With one client there is no goal: the cores sleep between its requests, while the
# floors were measured on cores that do not sleep.
sub _limit { my ($c, $limit) = @_; return $c == 1 ? undef : $limit }

sub _refresh_goals {
    my ($cells, $c, $floors) = @_;

    my ($id, $floor) = @{$cells}{ "identity/$c", "floor/$c" };
    my $crypto = 2 * $floors->{sign} + $floors->{verify};
    return ([ 'refresh, identity CPU / (2 signs + 1 verify)',
            $id->{cpu}{identity} / $crypto, _limit($c, 1.20) ],
        [ "refresh, floor program's CPU / (2 signs + 1 verify)",
            $floor->{cpu}{identity} / $crypto ],
        [ "refresh, rate / the floor program's",
            $id->{rate} / $floor->{rate}, _limit($c, 0.80), '>=' ]);
}

sub _login {
    my ($stage, $o) = @_;

    my $accounts = $stage->t->write_file('login.accounts',
        join '', map {"bench$_\@bench.test\n"} 1 .. 1000);
    return _each($o, sub {
        return ("login/$_[0]" => sub {
            return ('/api/auth/login', words => $accounts,
                body => qq({"account":"\@","credential":"$CREDENTIAL"}));
        });
    });
}

sub _login_goals {
    my ($cells, $c, $floors) = @_;

    return [ 'login, identity CPU / (1 Argon2id verify + 2 signs)',
        $cells->{"login/$c"}{cpu}{identity}
            / ($floors->{argon2id} + 2 * $floors->{sign}), _limit($c, 1.10) ];
}

# Sessions are switched to a branch again and again.  There are twice as many sessions
# as clients, so that no two clients switch the same one.
sub _select {
    my ($stage, $o) = @_;

    return _each($o, sub {
        my ($c) = @_;
        my @tokens = map {
            my $res = http_post($stage->port('identity'), '/api/auth/login',
                json => { account => 'several@demo.test',
                    credential => $CREDENTIAL });
            $res->json->{accountAccessToken}
                // die 'login: ' . $res->status . "\n";
        } 1 .. 2 * $c;
        my $words = $stage->t->write_file("select-$c.tokens",
            join '', map {"$_\n"} @tokens);
        return ("identity/$c" => sub {
            return ('/api/auth/select-branch', auth => 'Bearer', words => $words,
                body => qq({"branchId":"$HARBOUR_EAST"}));
        });
    });
}

sub _keyset {
    my ($stage, $o) = @_;

    return _each($o, sub {
        return ("identity/$_[0]" => sub {
            return ('/.well-known/jwks.json', method => 'GET');
        });
    });
}

# -- rounds -----------------------------------------------------------------------

# One round of a cell: what wrk said, and the processor time of a request by
# program.  $args is a sub as in $SECTION's setup.  A round with an error is measured
# again, a few times.
sub round {
    my ($stage, $cell, $args, $seconds) = @_;

    my ($backend, $c) = split m{/}, $cell;
    for my $try (1 .. 3) {
        my ($path, %args) = $args->();
        my $before = $stage->cpu($backend);
        my $got = wrk(connections => $c, seconds => 120,
            url => 'http://127.0.0.1:' . $stage->port($backend) . $path,
            headers => [ 'Host: bench.test', @{ delete $args{headers} // [] } ],
            args => { method => 'POST', seconds => $seconds, %args });
        my $after = $stage->cpu($backend);
        if (!$got->{refused}) {
            $got->{cpu} = { map { $_ => ($after->{$_} - $before->{$_})
                / $got->{requests} } keys %$before };
            return $got;
        }
        print STDERR "refused, $cell: $got->{refused}\n";
        sleep 3;    # what it left in flight ends
    }
    die "three refused rounds of $cell in a row\n";
}

# Runs a section's rounds.  Backends alternate, and change places each round.
sub run {
    my ($stage, $name, $o) = @_;

    my $section = $SECTION{$name};
    my $run = $section->{setup}->($stage, $o);
    my $once = sub { return round($stage, $_[0], $run->{ $_[0] },
        $o->{seconds}) };
    $once->($_) for sort keys %$run;    # connections, statements, caches
    my (%cells, %floors, %goals);
    for my $n (1 .. $o->{rounds}) {
        print STDERR "$name: round $n of $o->{rounds}\n";
        for my $c (@{ $o->{connections} }) {
            my @cells = sort grep {m{/$c$}} keys %$run;
            # The floors of before and after: a machine is not as fast all the
            # time.
            my (%floor, %got);
            for my $cell (undef, $n % 2 ? @cells : reverse(@cells)) {
                $got{$cell} = $once->($cell) if $cell;
                $floor{$_} += $stage->floor($_, $o->{quick} ? 100 : 300,
                    $section->{floor_key})
                    / (1 + @cells) for @{ $section->{floors} // [] };
            }
            push @{ $floors{$_} }, $floor{$_} for keys %floor;
            push @{ $cells{$_} }, $got{$_} for @cells;
            next if !$section->{goals};
            push @{ $goals{$_->[0] . ", $c"} }, $_
                for $section->{goals}->(\%got, $c, \%floor);
        }
    }
    return { title => $section->{title}, rounds => $o->{rounds},
        cells => \%cells, floors => \%floors, goals => [ map {
            my @rounds = @{ $goals{$_} };
            { text => $_, ratio => ratio(map { $_->[1] } @rounds),
                limit => $rounds[0][2], relation => $rounds[0][3] }
        } sort keys %goals ] };
}

# -- what comes out ----------------------------------------------------------------

sub _value {
    my ($unit, @values) = @_;

    my $s = summary(map { $_ / $unit } @values);
    return sprintf '%s (%s to %s)', map { number($s->{$_}) }
        qw(median low high);
}

# By connections, then by the number in the name; the floor last.
sub _order {
    my ($an, $ac, $bn, $bc) = map { m{^\D*(\d*)/(\d+)} ? ($1 || 0, $2) : () }
        $a, $b;
    return $ac <=> $bc || $an <=> $bn || $b cmp $a;
}

sub report {
    my ($got) = @_;

    my @rows = map {
        my ($backend, $c) = split m{/};
        my @rounds = @{ $got->{cells}{$_} };
        my $label = $backend eq 'floor' ? ', floor program'
            : $backend =~ /^s(\d+)/ ? ', ' . count($1) . ' sessions'
            : $backend =~ /^(?:identity|login)$/ ? '' : ", $backend";
        [ "$c$label", _value(1, map { $_->{rate} } @rounds),
            (map { my $f = $_; _value(1000, map { $_->{$f} } @rounds) }
                qw(p50_us p99_us)),
            (map { my $who = $_; _value(1, map { $_->{cpu}{$who} } @rounds) }
                qw(identity postgres nginx)) ]
    } sort _order keys %{ $got->{cells} };
    return "$got->{title}; $got->{rounds} rounds, medians (quartiles)\n\n"
        . table([ 'connections', 'requests/s', 'p50 ms', 'p99 ms',
            'identity us', 'PostgreSQL us', 'nginx us' ], @rows)
        . (%{ $got->{floors} }
            ? table([ 'floor, a thread a core', 'CPU us' ],
                map { [ $_, _value(1, @{ $got->{floors}{$_} }) ] }
                    sort keys %{ $got->{floors} }) : '')
        . goal_table(@{ $got->{goals} });
}

1;
