package Bench::Gateway::Plan;

# What is measured: groups of cases that run in turn, and the goals that a
# group has to reach.

use strict;
use warnings;

use Bench::Gateway::Haproxy;
use Bench::Gateway::Variants;
use Platform::Test::Jwt;

# In the order in which they run.  pairs: times there and back.
our @GROUPS = qw(proxied public refused preflight kinds connections tls haproxy
    tokens routes);
my %PAIRS = map { $_ => 20 } qw(proxied public refused preflight);
my @KINDS = qw(good public none forged expired preflight large kept);

sub new {
    my ($class, $t, $tokens, %o) = @_;

    my $v = Bench::Gateway::Variants->new($t, $tokens);
    my $self = bless { t => $t, tokens => $tokens, v => $v,
        quick => $o{quick} }, $class;

    $v->gateway('gateway');
    my %seen = map { $_ => $v->observe('gateway', 'gateway', $_) } @KINDS;
    $v->bare('bare', map { [ "bare_$_", $seen{$_} ] } @KINDS);
    $v->bare('again', [ 'again_good', $seen{good} ]);
    $v->compare($_, $seen{$_}, $v->observe('bare', "bare_$_", $_)) for @KINDS;
    $self->{seen} = \%seen;
    return $self;
}

sub pairs {
    my ($self, $group) = @_;

    return $self->{quick} ? ($PAIRS{$group} ? 3 : 1) : $PAIRS{$group} // 3;
}

# The groups that can run here, and why others cannot.
sub groups {
    my ($self) = @_;

    my %skip;
    $skip{haproxy} = Bench::Gateway::Haproxy::missing() if Bench::Gateway::Haproxy::missing();
    return ([ grep { !$skip{$_} } @GROUPS ], \%skip);
}

sub group { my ($self, $name) = @_; my $sub = "_$name"; return $self->$sub }

sub _many { return $_[0]{quick} ? 10_000 : 100_000 }

# -- helpers --------------------------------------------------------------------

sub _ours {
    my ($self, $name, $kind, %o) = @_;

    my $instance = delete $o{instance} // 'gateway';
    return $self->{v}->case($name, $instance, $instance, $kind, %o);
}

sub _bare {
    my ($self, $name, $kind, %o) = @_;

    return $self->{v}->case($name, 'bare', "bare_$kind", $kind, %o);
}

# A gateway started when it is first needed.
sub _gateway {
    my ($self, $name, %o) = @_;

    $self->{v}->gateway($name, %o) unless $self->{started}{$name}++;
    return $name;
}

# With a cache of a thousand tokens: a longer list that goes round and round
# finds none of its tokens there.
sub _small {
    my ($self) = @_;

    return $self->_gateway('small', cache => 'entries=1000');
}

sub _large {
    my ($self) = @_;

    return $self->_gateway('large', cache => 'entries=200000 size=1000m');
}

# -- memory: what Bench::Gateway::Memory needs -----------------------------------

# Cases with one token and with many on caches that hold them all, tokens of
# the usual size and large ones; how many, how long each is.
sub memory {
    my ($self) = @_;

    my @kinds = ([ memory => 'good', $self->_many ],
        [ memory200 => 'large', 2000, branches => 200 ]);
    return map {
        my ($name, $kind, $count, @list) = @$_;
        my @o = (instance => $self->_gateway($name,
            cache => 'entries=200000 size=1000m'));
        { one  => $self->_ours(one => $kind, @o),
          many => $self->_ours(many => $kind, @o,
              list => $self->{tokens}->list($count, @list)),
          count => $count, bytes => length $self->{tokens}->one($kind) };
    } @kinds;
}

# A case whose tokens never fit into its cache.
sub full {
    my ($self) = @_;

    return $self->_ours(full => 'good',
        list => $self->{tokens}->list($self->_many),
        instance => $self->{quick} ? $self->_small : 'gateway');
}

# -- groups ---------------------------------------------------------------------

sub _proxied {
    my ($self) = @_;

    my $list = $self->{tokens}->list(10_000);
    return {
        title => 'Proxied, 32 connections',
        warm  => [ $self->_ours(fill => 'good', list => $list) ],
        cases => [
            $self->_bare('bare', 'good'),
            $self->{v}->case('bare again', 'again', 'again_good', 'good'),
            $self->_ours('one warm token', 'good'),
            $self->_ours('10,000 tokens', 'good', list => $list,
                order => 'shuffled'),
            $self->_ours('each token once', 'good', list => $list,
                instance => $self->_small),
            $self->{v}->case('bare, ids kept', 'bare', 'bare_kept', 'kept'),
            $self->_ours('one warm token, ids kept', 'kept'),
        ],
        goals => [
            { name => 'one warm token', times => 1.10, base => 'bare' },
            { name => '10,000 tokens', times => 1.15, base => 'bare' },
            { name => 'each token once', base => 'bare', verify => 1.3 },
            { name => 'one warm token, ids kept', base => 'bare, ids kept',
                beside => 1 },
            { name => 'bare again', base => 'bare', beside => 1 },
            { name => 'one warm token', base => 'bare', field => 'p99',
                beside => 1 },
            { name => 'bare again', base => 'bare', field => 'p99',
                beside => 1 },
        ],
    };
}

sub _public {
    my ($self) = @_;

    return {
        title => 'Public route, 32 connections',
        cases => [ $self->_bare('bare', 'public'),
            $self->_ours('public route', 'public') ],
        goals => [ { name => 'public route', times => 1.05,
            base => 'bare' } ],
    };
}

sub _refused {
    my ($self) = @_;

    return {
        title => 'Refused (401), 32 connections',
        cases => [
            $self->_bare('native 401', 'none'),
            $self->_ours('no token', 'none'),
            $self->_bare('native 401, forged token', 'forged'),
            $self->_ours('forged, each once', 'forged',
                instance => $self->_small,
                list => $self->{tokens}->forged_list(10_000)),
        ],
        goals => [
            { name => 'no token', times => 1.08, base => 'native 401' },
            { name => 'forged, each once', verify => 1.3,
                base => 'native 401, forged token' },
        ],
    };
}

sub _preflight {
    my ($self) = @_;

    return {
        title => 'Preflight, 32 connections',
        cases => [ $self->_bare('native 204', 'preflight'),
            $self->_ours('preflight', 'preflight') ],
        goals => [ { name => 'preflight', times => 1.08,
            base => 'native 204' } ],
    };
}

sub _kinds {
    my ($self) = @_;

    my $key = $self->{tokens}->key;
    my $keys = $self->{t}->write_file('keys50.json',
        jwks((map { $key->as("other-$_") } 1 .. 49), $key));
    my $fifty = $self->_gateway('fifty', keys => $keys,
        cache => 'entries=1000');
    my $list = $self->{tokens}->list(10_000);
    my $many = $self->_many;
    my @many = (list => $self->{tokens}->list($many),
        instance => $self->_large);
    my $label = $many =~ s/(?<=\d)(?=(\d{3})+$)/,/r;
    return {
        title => 'Other tokens and keys, 32 connections',
        warm  => [ $self->_ours(fill => 'good', @many, seconds => 6) ],
        cases => [
            $self->_bare('bare', 'good'),
            $self->_ours("$label tokens", 'good', @many,
                order => 'shuffled'),
            $self->_bare('bare, 200 branches', 'large'),
            $self->_ours('200 branches', 'large'),
            $self->_ours('50 keys', 'good', instance => $fifty),
            $self->_ours('50 keys, each token once', 'good',
                instance => $fifty, list => $list),
            $self->_bare('native 401, expired token', 'expired'),
            $self->_ours('expired', 'expired'),
        ],
        goals => [ map { { name => $_->[0], base => $_->[1], beside => 1 } }
            [ "$label tokens", 'bare' ],
            [ '200 branches', 'bare, 200 branches' ],
            [ '50 keys', 'bare' ],
            [ 'expired', 'native 401, expired token' ] ],
    };
}

sub _connections {
    my ($self) = @_;

    return {
        title => 'Numbers of connections',
        cases => [
            map {
                my @o = (connections => $_);
                ($self->_bare("bare, $_", 'good', @o),
                    $self->_ours("one warm token, $_", 'good', @o))
            } 1, 32, 256
        ],
        goals => [ map { { name => "one warm token, $_", base => "bare, $_",
            beside => 1 } } 1, 32, 256 ],
    };
}

sub _tls {
    my ($self) = @_;

    return {
        title => 'TLS, 32 connections',
        cases => [
            $self->_bare('bare', 'good', tls => 1),
            $self->_ours('one warm token', 'good', tls => 1),
        ],
        goals => [ { name => 'one warm token', base => 'bare',
            beside => 1 } ],
    };
}

sub _haproxy {
    my ($self) = @_;

    my $haproxy = $self->{haproxy}
        //= Bench::Gateway::Haproxy->new($self->{t}, $self->{tokens}, $self->{v});
    my $list = $self->{tokens}->list(10_000);
    return {
        title => 'HAProxy jwt_verify, 32 connections',
        cases => [
            $self->_bare('bare', 'good'),
            $haproxy->case('HAProxy, one token', 'good'),
            $haproxy->case('HAProxy, 10,000 tokens', 'good',
                list => $list),
            $haproxy->case('HAProxy, forged', 'forged'),
            $haproxy->case('HAProxy, no token', 'none'),
        ],
        goals => [ map { { name => "HAProxy, $_", base => 'bare',
            beside => 1 } } 'one token', '10,000 tokens', 'forged',
            'no token' ],
    };
}

sub _tokens {
    my ($self) = @_;

    my @counts = grep { $_ <= $self->_many } 1, 10, 100, 1000, 10_000,
        100_000;
    my @o = (instance => $self->_large, order => 'shuffled');
    my %list = map { $_ => $self->{tokens}->list($_) } @counts;
    return {
        title => 'Growth: cached tokens, 32 connections',
        warm  => [ $self->_ours(fill => 'good', list => $list{ $counts[-1] },
            seconds => 6, instance => $self->_large) ],
        cases => [ map {
            $self->_ours("$_ cached", 'good', @o, list => $list{$_})
        } @counts ],
    };
}

sub _routes {
    my ($self) = @_;

    my @counts = (1, 10, 100, 500);
    my @cases;
    for my $n (@counts) {
        my $last = $n == 1 ? '/api/x' : "/service-$n/x";
        my $more = sub {
            my ($guard) = @_;
            return join '', map {
                "location /service-$_/ { $guard proxy_pass http://u; }\n"
            } 2 .. $n;
        };
        my $ours = $self->_gateway("routes$n",
            more => $more->('platform_gateway_access branch;'));
        my $bare = "bare_routes$n";
        $self->{v}->bare($bare, [ $bare, $self->{seen}{good},
            more => $more->('') ]) unless $self->{started}{$bare}++;
        push @cases, $self->{v}->case("bare, $n", $bare, $bare, 'good',
            path => $last), $self->_ours("one warm token, $n", 'good',
            instance => $ours, path => $last);
    }
    return { title => 'Growth: routes, 32 connections', cases => \@cases };
}

1;
