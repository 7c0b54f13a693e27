package Platform::Test::Sessions;

# What is known of sessions that many clients use at once: every token handed
# out, what replaced it, when a logout was asked for and granted.  Each answer
# is held against that, so that whatever the service may not do is noticed.

use v5.36;

use Time::HiRes qw(time);

use Platform::Test::Jwt;

# retries => 1: the same token may be given again for the same one.
sub new ($class, %o) {
    return bless { all => {}, broken => [], count => {}, longest => 0, %o }, $class;
}

sub all { return values %{ $_[0]{all} } }

# Those that nobody has tried to end and that are not in doubt.
sub usable ($self) {
    return grep { !$_->{logout_sent} && !$_->{doubt} } $self->all;
}

sub note ($self, $request, $answer) {
    my $kind = $request->{path} =~ s{.*/}{}r;
    my $what = $answer->{status}
        ? "$kind $answer->{status} $answer->{code}" : "$kind unanswered";
    $self->{count}{$what}++;
    $self->{longest} = $answer->{took} if $answer->{took} > $self->{longest};
    # Nothing is known of what was not answered by the service itself.
    $answer->{unknown} = $answer->{status} == 0 || $answer->{status} =~ /^50[24]$/
        || $answer->{status} == 503 && $answer->{body} =~ /may or may not/
        || $answer->{status} == 503
            && $answer->{code} !~ /^(?:DATABASE_UNAVAILABLE|AUTH_BUSY)$/;
    $self->{count}{unknown}++ if $answer->{unknown};
    my $method = 'note_' . $kind =~ tr/-/_/r;
    $self->$method($request, $answer, $request->{session}, $what);
}

sub broken ($self, $what) {
    push @{ $self->{broken} }, $what if @{ $self->{broken} } < 50;
}

sub jti { return (jwt_decode($_[0]))[1]{jti} }

sub note_login ($self, $request, $answer, $s, $what) {
    if ($answer->{status} != 200) {
        $self->broken($what) if $answer->{status} !~ /^50[234]$/ && !$answer->{unknown};
        return;
    }
    my ($token) = $answer->{body} =~ /"refreshToken":"([^"]+)"/;
    my $claims = (jwt_decode($token))[1];
    my @branches = $answer->{body} =~ /"branchId":"([^"]+)"/g;
    my ($account_token) = $answer->{body} =~ /"accountAccessToken":"([^"]+)"/;
    my $id = $claims->{session_id};
    $self->{all}{$id} = {
        id       => $id,
        current  => $token,
        account  => $account_token,
        branches => \@branches,
        issued   => { $claims->{jti} => $token },
        order    => [ $claims->{jti} ],
        next     => {},
    };
}

# An answer that a session which was logged out may not give any more.
sub _outlived ($s = undef, $answer = undef) {
    return defined $s->{logout_done} && $answer->{sent} > $s->{logout_done};
}

sub note_refresh ($self, $request, $answer, $s, $what) {
    my $old = $request->{jti};
    if ($answer->{status} == 200) {
        my ($token) = $answer->{body} =~ /"refreshToken":"([^"]+)"/;
        my $new = jti($token);
        $self->broken('a refresh after the logout') if _outlived($s, $answer);
        if ($s->{next}{$old}) {
            return $self->{count}{'refresh retried'}++ if $self->{retries}
                && $token eq $s->{issued}{ $s->{next}{$old} };
            $self->broken("two successors of $old");
        }
        $s->{next}{$old} = $new;
        $s->{issued}{$new} = $token;
        push @{ $s->{order} }, $new;
        # Answers may come in another order than rotations were made.
        my $at = jti($s->{current});
        $at = $s->{next}{$at} while $s->{next}{$at};
        $s->{current} = $s->{issued}{$at};
    }
    elsif ($answer->{code} eq 'AUTH_REFRESH_TOKEN_STALE') {
        $s->{stale}{$old}++;    # explained() says whether it may be
    }
    elsif ($answer->{code} eq 'AUTH_SESSION_NOT_ACTIVE') {
        $self->broken("$what without a logout") unless $s->{logout_sent};
    }
    elsif ($answer->{unknown}) {
        $s->{in_doubt}{$old} = 1;
    }
    elsif ($answer->{status} != 503) {
        $self->broken($what);
    }
    # Who holds a token that may have been replaced by an answer that never
    # came has to log in again.
    if ($answer->{unknown} || $answer->{code} eq 'AUTH_REFRESH_TOKEN_STALE') {
        my $at = jti($s->{current});
        $s->{doubt} = 1 if $s->{in_doubt}{$at} && $s->{stale}{$at};
    }
}

sub note_select_branch ($self, $request, $answer, $s, $what) {
    if ($answer->{status} == 200) {
        $self->broken('a selection after the logout') if _outlived($s, $answer);
    }
    elsif ($answer->{code} eq 'AUTH_SESSION_NOT_ACTIVE') {
        $self->broken("$what without a logout") unless $s->{logout_sent};
    }
    elsif ($answer->{status} != 503 && !$answer->{unknown}) {
        $self->broken($what);
    }
}

sub note_logout ($self, $request, $answer, $s, $what) {
    if ($answer->{status} == 200) {
        $s->{logout_done} //= time;
    }
    elsif ($answer->{status} != 503 && !$answer->{unknown}) {
        $self->broken($what);
    }
}

# Once all answers are in: a token that was called stale had been replaced, by
# one that was handed out or by an answer that never came.
sub check_stale ($self) {
    for my $s ($self->all) {
        for my $jti (keys %{ $s->{stale} // {} }) {
            next if $s->{next}{$jti} || $s->{in_doubt}{$jti};
            $self->broken("session $s->{id}: $jti was called stale");
        }
    }
}

# So many sessions of an account without a login each: rows that a login would
# have made, and tokens as the service signs them with this key.
sub make ($self, $pg, $key, $account, $count) {
    my @made;
    for my $row (split /\n/, $pg->sql("insert into auth_sessions
        (session_id, account_id, jti, created_at, expires_at)
        select gen_random_uuid(), account_id, gen_random_uuid(), now(),
            date_trunc('second', now()) + interval '30 days'
        from accounts, generate_series(1, $count)
        where account_name = '$account\@demo.test' returning session_id, jti,
            account_id, extract(epoch from expires_at)::bigint"))
    {
        my ($id, $jti, $owner, $exp) = split /\|/, $row;
        my %claims = (iss => $self->{issuer} // $Platform::Test::Jwt::ISSUER,
            session_id => $id, account_id => $owner, sub => $owner);
        my $token = jwt_token('refresh', $key, %claims, jti => $jti,
            iat => $exp - 30 * 86400, exp => $exp);
        push @made, $self->{all}{$id} = {
            id      => $id,
            current => $token,
            account => jwt_token('account', $key, %claims),
            issued  => { $jti => $token },
            order   => [ $jti ],
            next    => {},
        };
    }
    return @made;
}

# The requests.

my $CREDENTIAL = 'Demo-passw0rd!';

sub login ($self, $account) {
    return { path => '/api/auth/login', json => {
        account => "$account\@demo.test", credential => $CREDENTIAL } };
}

# So many sessions, one after the other: nobody has to wait for a slot.
sub log_in {
    my ($self, $load, $account, $count) = @_;

    $load->run(
        sub ($client, @) {
            return undef if $client->{number} || $self->all >= $count;
            return $self->login($account);
        },
        sub { $self->note(@_) });
    $self->{longest} = 0;
}

sub refresh ($self, $s, $token = undef) {
    $token //= $s->{current};
    return { path => '/api/auth/refresh', session => $s,
        jti => jti($token), json => { refreshToken => $token } };
}

sub select_branch ($self, $s) {
    my $branches = $s->{branches};
    return { path => '/api/auth/select-branch', session => $s, token => $s->{account},
        json => { branchId => $branches->[ rand @$branches ] } };
}

sub logout ($self, $s) {
    $s->{logout_sent} //= time;
    return { path => '/api/auth/logout', session => $s,
        json => { refreshToken => $s->{current} } };
}

1;
