package Bench::Identity::Cluster;

# A cluster that stays where it is between runs, since ten million sessions
# take minutes to make.

use strict;
use warnings;

use parent -norequire, 'Platform::Test::Postgres';
use Platform::Test;

# home: its directory; made when it is not there.  Other options as the
# parent's.
sub new {
    my ($class, %o) = @_;

    my $self = bless {
        %o,
        data => "$o{home}/data",
        log  => "$o{home}/postgres.log",
        user => Platform::Test::Env::unprivileged(),
    }, $class;
    if (!-d $self->{data}) {
        my $empty = Platform::Test::Postgres::empty_cluster();
        system('mkdir', '-p', $o{home}) == 0 or die "$o{home}: $!\n";
        system('cp', '-a', $empty, $self->{data}) == 0
            or die "cannot copy the empty cluster\n";
        $self->_own($o{home});
    }
    unlink $self->{log};
    $self->start;
    return $self;
}

# In order, so that the next start has nothing to recover.
sub stop {
    my ($self, $signal) = @_;

    return $self->SUPER::stop($signal // 'INT');
}

1;
