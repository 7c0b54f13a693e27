package Bench::Gateway::Plan;

# What is measured: groups of cases that run in turn, and the goals that a
# group has to reach.

use strict;
use warnings;

use Bench::Gateway::Variants;

# Gateways beside the one with all defaults.  A list of tokens that goes round and round finds
# none of them in a cache that is smaller.
my %GATEWAY = (
    small => { cache => 'entries=1000' },
    roomy => { cache => 'entries=200000 size=1000m' },
    empty => { cache => 'entries=200000 size=1000m' },
    unbuffered => { set => { PLATFORM_HTTP_ACCESS_LOG_BUFFER => 'off' } },
);

# Cases: [name, instance, kind of request, list => number of tokens that come
# in turn, order].  Goals: [case, case that it is compared with, greatest ratio,
# verify => so many RSA verifications are added to the other case].
our @GROUPS = (
    {   name  => 'proxied',
        title => 'Proxied',
        cases => [
            [ 'bare', 'bare', 'good' ],
            [ 'bare again', 'again', 'good' ],
            [ 'one warm token', 'gateway', 'good' ],
            [ 'each token once', 'small', 'good', list => 10_000 ],
            [ 'bare, ids kept', 'bare', 'kept' ],
            [ 'one warm token, ids kept', 'gateway', 'kept' ],
        ],
        goals => [
            [ 'one warm token', 'bare', 1.05 ],
            [ 'each token once', 'bare', 1, verify => 1.3 ],
            [ 'one warm token, ids kept', 'bare, ids kept', undef ],
            [ 'bare again', 'bare', undef ],
        ],
    },
    {   name  => 'tokens',
        title => 'Many tokens, in random order',
        warm  => [ [ 'fill', 'gateway', 'good', list => 10_000 ],
            [ 'fill more', 'roomy', 'good', list => 'many' ] ],
        cases => [
            [ 'bare, 10,000 tokens', 'bare', 'good', list => 10_000, order => 'shuffled' ],
            [ '10,000 tokens', 'gateway', 'good', list => 10_000, order => 'shuffled' ],
            [ 'bare, 100,000 tokens', 'bare', 'good', list => 'many', order => 'shuffled' ],
            [ '100,000 tokens', 'roomy', 'good', list => 'many', order => 'shuffled' ],
        ],
        goals => [
            [ '10,000 tokens', 'bare, 10,000 tokens', 1.12 ],
            [ '100,000 tokens', 'bare, 100,000 tokens', undef ],
        ],
    },
    {   name  => 'log',
        title => 'Access log',
        cases => [ [ 'a buffered log', 'gateway', 'good' ],
            [ 'a write a line', 'unbuffered', 'good' ] ],
        goals => [ [ 'a write a line', 'a buffered log', undef ] ],
    },
    {   name  => 'public',
        title => 'Public route',
        cases => [ [ 'bare', 'bare', 'public' ],
            [ 'public route', 'gateway', 'public' ] ],
        goals => [ [ 'public route', 'bare', 1.05 ] ],
    },
    {   name  => 'refused',
        title => 'Refused (401)',
        cases => [
            [ 'native 401', 'bare', 'none' ],
            [ 'no token', 'gateway', 'none' ],
            [ 'native 401, forged token', 'bare', 'forged' ],
            [ 'forged', 'small', 'forged', list => 10_000 ],
        ],
        goals => [
            [ 'no token', 'native 401', 1.08 ],
            [ 'forged', 'native 401, forged token', 1, verify => 1.3 ],
        ],
    },
    {   name  => 'preflight',
        title => 'Preflight',
        cases => [ [ 'native 204', 'bare', 'preflight' ],
            [ 'preflight', 'gateway', 'preflight' ] ],
        goals => [ [ 'preflight', 'native 204', 1.08 ] ],
    },
);

my @KINDS = qw(good public none forged preflight kept);

sub new {
    my ($class, $t, $tokens, $quick) = @_;

    my $v = Bench::Gateway::Variants->new($t, $tokens);
    $v->gateway('gateway')->both(gateway => bare => @KINDS);
    $v->bare('again', again_good => $v->{seen}{good});
    return bless { tokens => $tokens, v => $v, quick => $quick,
        there => { gateway => 1, bare => 1, again => 1 } }, $class;
}

# An instance, started when it is first needed.
sub _start {
    my ($self, $name) = @_;

    return if $self->{there}{$name}++;
    $self->{v}->gateway($name, %{ $GATEWAY{$name} });
    return;
}

# A case of the table as Bench::Gateway::Round takes it.
sub case {
    my ($self, $row) = @_;

    my ($name, $instance, $kind, %o) = @$row;
    $self->_start($instance);
    $o{list} = $self->{quick} ? 10_000 : 100_000
        if ($o{list} // '') eq 'many';
    $o{list} = $self->{tokens}->list($o{list}, $kind) if $o{list};
    return $self->{v}->case($name, $instance, $kind, %o);
}

sub group {
    my ($self, $group) = @_;

    return { %$group, pairs => $self->{quick} ? 3 : 20,
        (map { my $cases = $_;
            $cases => [ map { $self->case($_) } @{ $group->{$cases} // [] } ]
        } qw(warm cases)) };
}

1;
