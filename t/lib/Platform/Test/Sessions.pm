package Platform::Test::Sessions;

# The history of sessions that many clients use at once: every token handed out, what
# replaced it, when a logout was requested and granted.  Each answer is checked against
# it, so that a test notices whatever the service must not do.

use v5.36;

use Time::HiRes qw(time);

use Platform::Test::Jwt;

# retries => 1: the same token may be given again for the same one.
sub new ($class, %o) {
    return bless { all => {}, broken => [], count => {}, longest => 0, %o }, $class;
}

sub all ($self) { return values %{ $self->{all} } }

sub note ($self, $request, $answer) {
    my $kind = $request->{path} =~ s{.*/}{}r;
    my $what = $answer->{status}
        ? "$kind $answer->{status} $answer->{code}" : "$kind unanswered";
    $self->{count}{$what}++;
    $self->{longest} = $answer->{took} if $answer->{took} > $self->{longest};
    # An answer that is not the service's own tells nothing.
    $answer->{unknown} = $answer->{status} == 0 || $answer->{status} =~ /^50[24]$/
        || $answer->{status} == 503 && $answer->{body} =~ /may or may not/
        || $answer->{status} == 503
            && $answer->{code} !~ /^(?:DATABASE_UNAVAILABLE|AUTH_BUSY)$/;
    $self->{count}{unknown}++ if $answer->{unknown};
    my ($s, $old, $code) = (@$request{qw(session jti)}, $answer->{code});
    if ($answer->{status} == 200) {
        $self->broken("$kind after the logout") if $kind ne 'logout'
            && defined $s->{logout_done} && $answer->{sent} > $s->{logout_done};
        $s->{logout_done} //= time if $kind eq 'logout';
        $self->_logged_in($answer->{body}) if $kind eq 'login';
        $self->_refreshed($s, $old, $answer->{body}) if $kind eq 'refresh';
        return;
    }
    if ($code eq 'AUTH_REFRESH_TOKEN_STALE' && $kind eq 'refresh') {
        $s->{stale}{$old}++;    # check_stale() says whether it may be
    }
    elsif ($code eq 'AUTH_SESSION_NOT_ACTIVE' && $kind =~ /^(?:refresh|select)/) {
        $self->broken("$what without a logout") unless $s->{logout_sent};
    }
    elsif ($answer->{unknown}) {
        $s->{in_doubt}{$old} = 1 if $kind eq 'refresh';
    }
    elsif ($answer->{status} != 503) {
        $self->broken($what);
    }
    # A client has to log in again if its token may have been replaced by an answer that
    # never came.
    if ($kind eq 'refresh') {
        my $at = jti($s->{current});
        $s->{doubt} = 1 if $s->{in_doubt}{$at} && $s->{stale}{$at};
    }
}

sub broken ($self, $what) {
    push @{ $self->{broken} }, $what if @{ $self->{broken} } < 50;
}

sub jti ($token) { return (jwt_decode($token))[1]{jti} }

sub _begin ($self, $token, %o) {
    my $claims = (jwt_decode($token))[1];
    my ($id, $jti) = @$claims{qw(session_id jti)};
    return $self->{all}{$id} = { id => $id, current => $token,
        issued => { $jti => $token }, order => [$jti], next => {}, %o };
}

sub _logged_in ($self, $body) {
    my ($token, $account) = map { $body =~ /"$_":"([^"]+)"/ } qw(refreshToken accountAccessToken);
    $self->_begin($token, account => $account, branches => [ $body =~ /"branchId":"([^"]+)"/g ]);
}

sub _refreshed ($self, $s, $old, $body) {
    my ($token) = $body =~ /"refreshToken":"([^"]+)"/;
    if ($s->{next}{$old}) {
        return $self->{count}{'refresh retried'}++ if $self->{retries}
            && $token eq $s->{issued}{ $s->{next}{$old} };
        $self->broken("two successors of $old");
    }
    my $new = $s->{next}{$old} = jti($token);
    $s->{issued}{$new} = $token;
    push @{ $s->{order} }, $new;
    # Answers may come in another order than rotations were made.
    my $at = jti($s->{current});
    $at = $s->{next}{$at} while $s->{next}{$at};
    $s->{current} = $s->{issued}{$at};
}

# Once all answers are in: a token that was refused as stale had been replaced, by a
# token that was handed out or by an answer that never came.
sub check_stale ($self) {
    for my $s ($self->all) {
        for my $jti (keys %{ $s->{stale} // {} }) {
            next if $s->{next}{$jti} || $s->{in_doubt}{$jti};
            $self->broken("session $s->{id}: $jti was called stale");
        }
    }
}

# Faults of the rows: what no row may have, or what contradicts the answers.
sub wrong_rows ($self, $pg) {
    my @wrong = map {"$_ is not legal"} split /\n/, $pg->sql("select session_id
        from auth_sessions where num_nulls(workspace_id, member_id, active_branch_id)
            not in (0, 3) or num_nulls(retry_jti, retry_next, retry_iat) not in (0, 3)
        or (status = 'REVOKED') <> (revoked_at is not null)
        or retry_jti is not null and (retry_next <> jti or retry_jti = jti)
        or revoked_at < created_at or expires_at <= created_at");
    my %row = map { s/\|.*//r => [ split /\|/ ] } split /\n/, $pg->sql(
        'select session_id, status, jti, retry_jti from auth_sessions');
    for my $s ($self->all) {
        my ($id, $status, $jti, $old) = @{ $row{ $s->{id} } // [ $s->{id}, 'MISSING', '' ] };
        push @wrong, "$id is $status" if $status !~ ($s->{logout_done} ? qr/^REVOKED$/
            : $s->{logout_sent} ? qr/^(?:ACTIVE|REVOKED)$/ : qr/^ACTIVE$/);
        my $last = jti($s->{current});
        push @wrong, "$id: $jti, not $last" if $jti ne $last
            && !($s->{logout_sent} ? %{ $s->{in_doubt} // {} } : $s->{in_doubt}{$last});
        push @wrong, "$id: of another" if $old && ($s->{next}{$old} // $jti) ne $jti;
    }
    return @wrong;
}

# The answers to refreshes with the last tokens of logged-out sessions, and to
# selections in them: { status and code => count }.
sub after_logout ($self, $load) {
    my @after = map {
        my $s = $_;
        (map { $self->refresh($s, $s->{issued}{$_}) }
            grep {defined} (reverse @{ $s->{order} })[ 0 .. 2 ]),
            $s->{branches} ? $self->select_branch($s) : ();
    } grep { $_->{logout_done} } $self->all;
    my %got;
    $load->run(sub { shift @after }, sub { $got{"$_[1]{status} $_[1]{code}"}++ });
    return \%got;
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
        push @made, $self->_begin(jwt_token('refresh', $key, %claims, jti => $jti,
            iat => $exp - 30 * 86400, exp => $exp),
            account => jwt_token('account', $key, %claims));
    }
    return @made;
}

# The requests.

sub login ($self, $account) {
    return { path => '/api/auth/login', json => {
        account => "$account\@demo.test", credential => 'Demo-passw0rd!' } };
}

# Opens so many sessions, one after the other, so that no login waits for a slot.
sub log_in ($self, $load, $account, $count) {
    $load->run(sub ($client) {
        return $client->{number} || $self->all >= $count ? undef : $self->login($account);
    }, sub { $self->note(@_) });
    $self->{longest} = 0;
}

sub refresh ($self, $s, $token = $s->{current}) {
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
