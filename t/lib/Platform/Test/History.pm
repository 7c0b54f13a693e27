package Platform::Test::History;

# Holds a recorded history of calls against what a service that did one thing after
# the other could have answered.  It knows the record alone: whoever made it is not
# asked, and no module of the tests is used but its own.  What is about second factors is
# in History/Factors.pm.
#
# A line is one of
#
#   rule NAME=VALUE ...
#   fault BEGIN END KIND
#   call BEGIN END OP STATUS CODE NAME=VALUE ...
#
# Times are seconds of one clock that never steps, rule epoch= its zero on the wall.
# STATUS 0 says that no answer came, CODE is "-" where there is none.  Tokens are
# recorded as the JSON of their claims.  Lines may come in any order.
#
# The end of a call that was answered is when its effect was seen; a call without an
# answer, or with a 5xx, had its effect at any time until rule doubt= seconds after
# its beginning, or never.

use v5.36;

use List::Util qw(any first max min);

use Platform::Test::History::Factors;

my $NEVER = 9**9**9;

my %SUCCESS = (login => 'AUTH_LOGIN_SUCCESS', refresh => 'AUTH_REFRESH_SUCCESS',
    select => 'AUTH_SELECT_BRANCH_SUCCESS', list => 'AUTH_SESSIONS_SUCCESS',
    end => 'AUTH_END_SESSION_SUCCESS', others => 'AUTH_LOGOUT_OTHERS_SUCCESS',
    all => 'AUTH_LOGOUT_ALL_SUCCESS', change => 'AUTH_CHANGE_CREDENTIAL_SUCCESS',
    logout => 'AUTH_LOGOUT_SUCCESS', context => '-', verify => 'AUTH_LOGIN_SUCCESS',
    step => 'AUTH_STEP_UP_SUCCESS', add => 'AUTH_FACTOR_ADDED', confirm => 'AUTH_FACTOR_CONFIRMED',
    drop => 'AUTH_FACTOR_REMOVED', codes => 'AUTH_RECOVERY_CODES_SUCCESS',
    # What an operator does: sessions ended, a credential set, an account switched off
    # and on; where it may work is from then on what can= says.
    map({ ($_ => 'OK') } qw(lock set disable enable grant)));

# Refusals that need a cause, and which.
my %REFUSAL = (
    AUTH_SESSION_NOT_ACTIVE     => \&_may_have_ended,
    GATEWAY_TOKEN_INVALID       => \&_may_have_ended,
    GATEWAY_TOKEN_EXPIRED       => \&_may_have_expired,
    AUTH_ACCESS_TOKEN_REQUIRED  => \&_may_have_expired,
    AUTH_ACCOUNT_TOKEN_REQUIRED => \&_may_have_expired,
    GATEWAY_CONTEXT_FORBIDDEN   => \&_wrong_kind,
    AUTH_BRANCH_NOT_SELECTABLE  => \&_may_be_closed,
    RESOURCE_NOT_FOUND          => sub ($self, $c) {
        return defined $c->{factor} ? $self->_may_be_gone($c) : $self->_target_may_have_ended($c) },
    AUTH_REFRESH_TOKEN_STALE    => \&_may_be_stale,
    AUTH_INVALID_CREDENTIALS    => \&_may_be_wrong,
    AUTH_TOO_MANY_ATTEMPTS      => sub ($self, $c) {
        # _attempts() looks at the others together.
        return defined $c->{proof} && !defined $c->{address} ? $self->_may_be_limited($c) : 1 },
    AUTH_FACTOR_INVALID         => sub ($self, $c) { return $self->_may_be_no_factor($c) },
    AUTH_FACTOR_TOKEN_INVALID   => sub ($self, $c) { return $self->_may_be_no_login($c) },
    AUTH_STEP_UP_REQUIRED       => sub ($self, $c) { return $self->_may_be_unfresh($c) },
    RESOURCE_CONFLICT           => sub ($self, $c) { return $self->_may_lack_factor($c) },
);

# Of a try that a busy service, or one without its parts, answers.
my %AWAY = map { ($_ => 1) } qw(- AUTH_BUSY DATABASE_UNAVAILABLE GATEWAY_KEYS_UNAVAILABLE
    GATEWAY_UPSTREAM_UNAVAILABLE GATEWAY_UPSTREAM_TIMEOUT);

# $open gives a handle to read the history from, and does so twice.
sub new ($class, $open) {
    my $self = bless { rule => {}, fault => [], bad => [], count => {}, calls => 0 }, $class;
    $self->_each($open, \&_learn);
    $self->_settle;
    $self->_each($open, \&_hold);
    $self->_attempts($_) for values %{ $self->{tries} };
    $self->_guesses($_) for values %{ $self->{shown} };
    for my $who (values %{ $self->{account} }) {
        $self->_bad({}, 'list-unknown', 'more strange sessions than logins without an answer')
            if keys %{ $who->{strange} // {} } > @{ $who->{unsure} };
    }
    return $self;
}

# What is wrong: "KIND what", and of which line.
sub violations ($self) { return @{ $self->{bad} } }

sub calls ($self) { return $self->{calls} }

sub faults ($self) { return @{ $self->{fault} } }

# How many calls a gateway had to refuse since the session had ended, and did.
sub in_time ($self) { return $self->{in_time} // 0 }

# { "OP STATUS CODE" => how many }.
sub kinds ($self) { return $self->{count} }

sub _bad ($self, $c, $kind, $what) {
    push @{ $self->{bad} }, "$kind: $what" . ($c->{line} ? " (line $c->{n}: $c->{line})" : '');
}

# -- reading --

sub _each ($self, $open, $do) {
    my $fh = $open->();
    while (my $line = <$fh>) {
        chomp $line;
        next if $line =~ /^(?:#|$)/;
        my ($type, @word) = split ' ', $line;
        if ($type eq 'rule') {
            %{ $self->{rule} } = (%{ $self->{rule} }, map { split /=/, $_, 2 } @word);
        }
        elsif ($type eq 'fault') {
            push @{ $self->{fault} }, [@word] if $do == \&_learn;
        }
        elsif ($type eq 'call') {
            my %c = (line => $line, n => $., map { split /=/, $_, 2 } splice @word, 5);
            @c{qw(b e op status code)} = @word;
            $c{asked} = $c{status} == 200 && $c{code} eq 'AUTH_FACTOR_REQUIRED';
            $c{yes} = $c{status} =~ /^20[01]$/ && !$c{asked};
            $c{unsure} = !$c{yes} && $c{status} !~ /^[24]/ && !_undone(\%c);
            $c{until} = $c{unsure} ? max($c{e}, $c{b} + ($self->{rule}{doubt} // 0)) : $c{e};
            $do->($self, \%c);
        }
        else {
            $self->_bad({ line => $line, n => $. }, 'unreadable', 'not a line of a history');
        }
    }
}

# A refresh that was answered so has replaced nothing.
sub _undone ($c) {
    return $c->{op} eq 'refresh' && $c->{code} =~ /^(?:DATABASE_UNAVAILABLE|AUTH_BUSY)$/
        && !$c->{doubt};
}

# The claims of a token; arrays as their sorted elements, joined.
sub _claims ($json) {
    my %claim;
    while ($json =~ /"(\w+)":(?:"([^"]*)"|(\d+)|\[([^\]]*)\])/g) {
        my ($name, $value, $list) = ($1, $2 // $3, $4);
        $claim{$name} = $value // join '+', sort $list =~ /"([^"]*)"/g;
    }
    return \%claim;
}

# -- the first time: what happened --

sub _account ($self, $id) {
    return $self->{account}{$id} //= { status => [ [ -$NEVER, -$NEVER, 1, 'on' ] ],
        map { $_ => [] } qw(can secret end sessions unsure factors sets stamp) };
}

# A value that was written, for sure or perhaps, in [b, e].
sub _write ($list, $c, $value) {
    push @$list, [ $c->{b}, $c->{until}, $c->{yes}, $value ] if $c->{yes} || $c->{unsure};
}

sub _learn ($self, $c) {
    my $do = __PACKAGE__->can("_learn_$c->{op}");
    $do->($self, $c) if $do && ($c->{yes} || $c->{unsure});
    $self->_learn_asked($c) if $c->{asked};
    $self->_learn_proof($c) if defined $c->{proof};
    for my $token (grep {defined} @$c{qw(access extra)}) {
        my $t = _claims($token);
        $self->_bad($c, 'id-twice', "access token $t->{jti}") if $self->{access}{ $t->{jti} };
        $self->{access}{ $t->{jti} } = [ @$t{qw(session_id exp token_type)}, _context($t) ];
    }
    push @{ $self->{tries}{"$c->{account} $c->{address}"} }, $c
        if $c->{op} =~ /^(?:login|change|step)$/ && defined $c->{address};
}

sub _learn_login ($self, $c) {
    my $who = $self->_account($c->{account});
    return push @{ $who->{unsure} }, $c->{b} if !$c->{yes};
    my $t = _claims($c->{refresh} // '');
    my $id = $t->{session_id} // return;
    return $self->_bad($c, 'session-twice', $id) if $self->{session}{$id};
    my $s = $self->{session}{$id} = { id => $id, account => $c->{account}, b => $c->{b},
        e => $c->{e}, scope => [] };
    push @{ $who->{sessions} }, $s;
    _write($s->{scope}, $c, _scope($c));
    $self->_authenticated($c, $id);
    $self->_issue($c, $t, '');
}

sub _learn_refresh ($self, $c) {
    my $use = $self->{use}{ $c->{jti} } //= { b => $NEVER, e => $NEVER };
    $use->{b} = min($use->{b}, $c->{b});
    return if !$c->{yes};
    $use->{e} = min($use->{e}, $c->{e});
    my $t = _claims($c->{refresh} // '');
    my $next = $t->{jti} // '';
    $self->_bad($c, 'fork', "$c->{jti} has two successors") if ($use->{next} // $next) ne $next;
    $use->{next} //= $next;
    $self->_issue($c, $t, $c->{jti});
    push @{ $self->{late_scope} }, [ $c->{session}, $c->{b}, $c->{e}, _scope($c) ];
}

# A refresh token comes from one login or from one other token.
sub _issue ($self, $c, $t, $from) {
    my $jti = $t->{jti} // return;
    my $had = $self->{issued}{$jti} //= [ $from, $t->{session_id} ];
    $self->_bad($c, 'id-twice', "refresh token $jti")
        if $had->[0] ne $from || $from eq '' && $had->[2]++;
}

sub _learn_select ($self, $c) {
    push @{ $self->{late_scope} },
        [ $c->{session}, $c->{b}, $c->{until}, $c->{branch}, $c->{unsure} ];
}

sub _end_one ($self, $c, $id) {
    push @{ $self->{end}{$id} }, [ $c->{b}, $c->{until}, $c->{yes} ];
}

sub _end_many ($self, $c, $except = '') {
    push @{ $self->_account($c->{account})->{end} },
        [ $c->{b}, $c->{until}, $c->{yes}, $except, $c->{line} ];
}

sub _learn_logout ($self, $c) { $self->_end_one($c, $c->{session}) }
sub _learn_end ($self, $c) { $self->_end_one($c, $c->{target}) }
sub _learn_others ($self, $c) { $self->_end_many($c, $c->{session}) }
sub _learn_all ($self, $c) { $self->_end_many($c) }
sub _learn_lock ($self, $c) {
    $self->_end_logins($c);
    $self->_end_many($c);
}

sub _learn_change ($self, $c) {
    $self->_end_logins($c);
    _write($self->_account($c->{account})->{secret}, $c, $c->{to});
    $self->_end_many($c, $c->{session});
}

sub _learn_set ($self, $c) {
    $self->_end_logins($c);
    _write($self->_account($c->{account})->{secret}, $c, $c->{to});
    $self->_end_many($c);
}

sub _learn_disable ($self, $c) {
    $self->_end_logins($c);
    _write($self->_account($c->{account})->{status}, $c, 'off');
    $self->_end_many($c);
}

sub _learn_enable ($self, $c) {
    _write($self->_account($c->{account})->{status}, $c, 'on');
}

# can=WORKSPACE/TENANT/MEMBER/BRANCH:ROLE+ROLE,...
sub _learn_grant ($self, $c) {
    my %can;
    for (split /,/, $c->{can} // '') {
        my ($w, $t, $m, $b, $roles) = m{^(.*)/(.*)/(.*)/(.*):(.*)$} or next;
        $roles = join '+', sort split /\+/, $roles;
        $can{$b} = { workspace => $w, row => "$w/$t/$m/$roles" };
    }
    my $who = $self->_account($c->{account});
    $who->{type} //= $c->{type};
    _write($who->{can}, $c, \%can);
}

# Which branch the answer's access token is for.
sub _scope ($c) { return _claims($c->{access} // '')->{active_branch_id} // 'none' }

# What a service is told of the bearer.
sub _context ($t) {
    return join '/', map { $t->{$_} // '' }
        qw(account_id session_id workspace_id tenant_id member_id active_branch_id roles);
}

sub _settle ($self) {
    for (@{ delete $self->{late_scope} // [] }) {
        my ($id, $b, $e, $value, $unsure) = @$_;
        my $s = $self->{session}{$id} or next;
        push @{ $s->{scope} }, [ $b, $e, !$unsure, $value ];
    }
    $self->_settle_factors;
    for my $list (map { $_->{scope} } values %{ $self->{session} }) {
        @$list = sort { $a->[0] <=> $b->[0] } @$list;
    }
    for my $who (values %{ $self->{account} }) {
        @$_ = sort { $a->[0] <=> $b->[0] } @$_ for @$who{qw(can secret status end)};
    }
    @{ $self->{fault} } = sort { $a->[0] <=> $b->[0] } @{ $self->{fault} };
    my %away = map { ($_ => 1) } split /,/, $self->{rule}{away} // '';
    $self->{away} = [ grep { $away{ $_->[2] } } @{ $self->{fault} } ];
}

# -- what may have been --

# The values that may have stood at some time in [b, e]: those written, and not
# surely overwritten before it.  $but: the reader itself is a writer.
sub _values ($list, $b, $e, $but = undef) {
    my $from = max(-$NEVER, map { $_->[0] } grep { $_->[2] && $_->[1] < $b } @$list);
    return map { $_->[3] } grep { $_->[0] <= $e && $_->[1] >= $from
        && !($but && $_->[0] == $b && $_->[1] == $e) } @$list;
}

# When a session may have ended at the earliest, and when it surely had; without the
# call on $but, a line.
sub _fate ($self, $s, $but = undef) {
    return @{ $s->{fate} } if !$but && $s->{fate};
    my ($maybe, $surely) = ($NEVER, $NEVER);
    my $see = sub ($end, $sure) {
        $maybe = min($maybe, $end->[0]);
        $surely = min($surely, $end->[1]) if $sure;
    };
    $see->($_, $_->[2]) for @{ $self->{end}{ $s->{id} } // [] };
    for my $end (@{ $self->_account($s->{account})->{end} }) {
        next if $end->[3] eq $s->{id} || $s->{b} > $end->[1] || $but && $end->[4] eq $but;
        $see->($end, $end->[2] && $s->{e} < $end->[0]);
    }
    $s->{fate} = [ $maybe, $surely ] if !$but;
    return ($maybe, $surely);
}

sub _wall ($self, $t) { return $t + ($self->{rule}{epoch} // 0) }

sub _skew ($self) { return $self->{rule}{skew} // 0 }

# Until when gateways may let in what ended at $t: a while longer where what tells
# them of it was away (rule away= names the faults that do that).
sub _reach ($self, $t) {
    my $until = $t + ($self->{rule}{reach} // 1);
    my $recover = $self->{rule}{recover} // 0;
    for my $fault (@{ $self->{away} }) {
        last if $fault->[0] > $until;
        $until = max($until, $fault->[1] + $recover);
    }
    return $until;
}

sub _calm ($self, $b, $e) {
    my $recover = $self->{rule}{recover} // 0;
    return !any { $_->[0] <= $e && $_->[1] + $recover >= $b } @{ $self->{fault} };
}

# -- the second time: each answer --

sub _hold ($self, $c) {
    $self->{calls}++;
    $self->{count}{"$c->{op} $c->{status} $c->{code}"}++;
    return $self->_bad($c, 'unreadable', 'ends before it begins') if $c->{e} < $c->{b};
    my $success = $SUCCESS{ $c->{op} }
        // return $self->_bad($c, 'unreadable', 'an operation of that name');
    if ($c->{yes}) {
        return $self->_bad($c, 'unexpected', 'success of another call') if $c->{code} ne $success;
        $self->_hold_subject($c) if defined $c->{session};
        my $do = __PACKAGE__->can("_hold_$c->{op}");
        $do->($self, $c) if $do;
        $self->_hold_authentication($c);
    }
    elsif ($c->{asked} && $c->{op} eq 'login') {
        $self->_hold_asked($c);
    }
    elsif ($c->{status} =~ /^4/) {
        my $cause = $REFUSAL{ $c->{code} };
        return $self->_bad($c, 'unexpected', 'a refusal that no call deserves') if !$cause;
        my ($ok, $kind) = $cause->($self, $c);
        $self->_bad($c, $kind // 'out', 'refused without a cause') if !$ok;
    }
    elsif ($c->{status} && !$AWAY{ $c->{code} }) {
        $self->_bad($c, 'unexpected', 'an error of the service');
    }
}

# The session is there, and whoever acts in it may.  (A logout needs none.)
sub _hold_subject ($self, $c) {
    return if $c->{op} eq 'logout';
    my $s = $self->{session}{ $c->{session} }
        // return $self->_bad($c, 'strange', 'no login opened this session');
    $self->_bad($c, 'strange', 'of another account')
        if defined $c->{account} && $c->{account} ne $s->{account};
    my (undef, $ended) = $self->_fate($s);
    my $until = $c->{op} eq 'context' && $ended < $NEVER ? $self->_reach($ended) : $ended;
    $self->_bad($c, $c->{op} eq 'context' ? 'reach' : 'dead',
        sprintf 'the session ended at %s', $ended) if $c->{b} > $until;
    return if !defined $c->{token};
    my $t = $self->{access}{ $c->{token} }
        // return $self->_bad($c, 'strange', 'a token that was not issued');
    $self->_bad($c, 'strange', 'a token of another session') if $t->[0] ne $c->{session};
    $self->_bad($c, 'expired', 'the token had expired')
        if $self->_wall($c->{b}) > $t->[1] + ($self->{rule}{leeway} // 0) + $self->_skew;
    $self->_bad($c, 'kind', "a token for another purpose: $t->[2]")
        if $t->[2] ne ($c->{op} eq 'context' ? 'workspace' : 'account')
        && $c->{op} =~ /^(?:context|select)$/;
}

sub _hold_right ($self, $c) {
    my $who = $self->_account($c->{account});
    $self->_bad($c, 'credential', 'not the account\'s by then') if defined $c->{secret}
        && !any { $_ eq $c->{secret} } _values($who->{secret}, $c->{b}, $c->{e});
    $self->_bad($c, 'disabled', 'the account is switched off')
        if !any { $_ eq 'on' } _values($who->{status}, $c->{b}, $c->{e});
}

sub _hold_login ($self, $c) {
    $self->_hold_right($c);
    $self->_bad($c, 'no-factor', 'the account has a factor')
        if $c->{op} eq 'login' && $self->_has_factor($c);
    my $t = _claims($c->{refresh} // '');
    $self->_tokens($c, $t->{session_id} // '', $c->{account});
}

sub _hold_refresh ($self, $c) {
    my $s = $self->{session}{ $c->{session} } // return;
    my $issued = $self->{issued}{ $c->{jti} };
    return $self->_bad($c, 'strange', 'a refresh token that was not issued')
        if !$issued || $issued->[1] ne $c->{session};
    my $use = $self->{use}{ $c->{jti} };
    my $next = $self->{use}{ $use->{next} // '' };
    $self->_bad($c, 'revived', 'its successor had been used') if $next && $next->{e} < $c->{b};
    $self->_bad($c, 'late-retry', 'the time for that was over')
        if $c->{b} > $use->{e} + ($self->{rule}{window} // 0);
    $self->_tokens($c, $c->{session}, $s->{account});
    $self->_hold_scope($c, $s);
}

# The branch of the answer is the session's, of which some calls may go on.
sub _hold_scope ($self, $c, $s) {
    my $got = _scope($c);
    my @may = _values($s->{scope}, $c->{b}, $c->{e}, 1);
    return if any { $_ eq $got } @may;
    # It loses its branch where that is closed.
    my @closed = grep { $_ ne 'none' && $self->_closed($s->{account}, $_, $s->{b}, $c->{e}) } @may;
    $self->_bad($c, 'scope', "the session's branch is another") if $got ne 'none' || !@closed;
}

sub _hold_select ($self, $c) {
    my $s = $self->{session}{ $c->{session} } // return;
    $self->_tokens($c, $c->{session}, $s->{account});
    $self->_bad($c, 'scope', 'not the branch that was asked for') if _scope($c) ne $c->{branch};
}

sub _hold_context ($self, $c) {
    my $t = $self->{access}{ $c->{token} // '' } // return;
    $self->_bad($c, 'context', "the service was told $c->{echo}")
        if defined $c->{echo} && $c->{echo} ne $t->[3];
}

sub _hold_end ($self, $c) {
    my $s = $self->{session}{ $c->{target} } // return;
    $self->_bad($c, 'strange', 'of another account') if $s->{account} ne $c->{account};
    $self->_bad($c, 'dead', 'it had ended') if ($self->_fate_before($s, $c))[1] < $c->{b};
}

sub _fate_before ($self, $s, $c) {
    my @other = grep { $_->[0] != $c->{b} || $_->[1] != $c->{until} } @{ $self->{end}{ $s->{id} } };
    local $self->{end}{ $s->{id} } = \@other;
    return $self->_fate($s, $c->{line});
}

sub _hold_list ($self, $c) {
    my @listed = split /,/, $c->{sessions} // '';
    my %listed = map { $_ => 1 } @listed;
    my $who = $self->_account($c->{account});
    $self->_bad($c, 'list-twice', 'a session twice') if @listed != keys %listed;
    $self->_bad($c, 'list-current', 'its own session is not the first')
        if ($listed[0] // '') ne $c->{session} || ($c->{current} // '') ne $c->{session};
    for my $s (@{ $who->{sessions} }) {
        my ($maybe, $surely) = $self->_fate($s);
        my $shown = delete $listed{ $s->{id} };
        $self->_bad($c, 'list-lacks', "$s->{id} is alive")
            if !$shown && !$c->{more} && $s->{e} < $c->{b} && $maybe > $c->{e};
        $self->_bad($c, 'list-ended', "$s->{id} had ended")
            if $shown && $surely < $c->{b} && $s->{id} ne $c->{session};
    }
    for my $id (keys %listed) {
        $self->_bad($c, 'list-foreign', $id) if $self->{session}{$id};
        $self->_bad($c, 'list-unknown', $id) if !any { $_ < $c->{e} } @{ $who->{unsure} };
        $who->{strange}{$id} = 1;
    }
}

# As many as can have ended by it.
sub _hold_others ($self, $c, $self_too = 0) {
    my $who = $self->_account($c->{account});
    my ($least, $most) = (0, scalar grep { $_ < $c->{e} } @{ $who->{unsure} });
    for my $s (@{ $who->{sessions} }) {
        next if $s->{id} eq $c->{session} && !$self_too;
        my ($maybe, $surely) = $self->_fate($s, $c->{line});
        $least++ if $s->{e} < $c->{b} && $maybe > $c->{e};
        $most++ if $s->{b} < $c->{e} && $surely > $c->{b};
    }
    $self->_bad($c, 'count', "between $least and $most") if $c->{ended} > $most
        || $c->{ended} < $least && $self->_calm($c->{b}, $c->{e});
}

sub _hold_all ($self, $c) { $self->_hold_others($c, 1) }

sub _hold_change ($self, $c) {
    $self->_bad($c, 'credential', 'not the account\'s by then') if !any { $_ eq $c->{secret} }
        _values($self->_account($c->{account})->{secret}, $c->{b}, $c->{e});
    $self->_hold_others($c);
}

# -- tokens and what they say --

sub _tokens ($self, $c, $session, $account) {
    my $r = defined $c->{refresh} ? _claims($c->{refresh}) : undef;
    $self->_bad($c, 'claims', 'no refresh token') if !$r && $c->{op} !~ /^(?:select|step)$/;
    my @all = (($r ? [ refresh => $r ] : ()),
        map { [ access => _claims($_) ] } grep {defined} @$c{qw(access extra)});
    $self->_bad($c, 'claims', 'no access token') if !grep { $_->[0] eq 'access' } @all;
    for (@all) {
        my ($use, $t) = @$_;
        my $wrong = $self->_claims_wrong($c, $use, $t, $session, $account);
        $self->_bad($c, 'claims', "$wrong of its $use token") if $wrong;
    }
    if (defined $c->{branches}) {
        my $listed = join ',', sort split /,/, $c->{branches};
        my $of = (first {defined} map { $_->[1]{workspace_id} } @all) // '';
        $self->_bad($c, 'branches', 'not the account\'s') if !any {
            my $can = $_;
            $listed eq join ',', sort grep { $of eq '' || $can->{$_}{workspace} eq $of } keys %$can
        } _values($self->_account($account)->{can}, $c->{b}, $c->{e});
    }
}

# The name of a claim that is not as it has to be.
sub _claims_wrong ($self, $c, $use, $t, $session, $account) {
    my $branch = ($t->{token_type} // '') eq 'workspace';
    my %is = (sub => $account, account_id => $account, session_id => $session,
        iss => $self->{rule}{issuer} // '', token_type => 'refresh');
    if ($use eq 'access') {
        %is = (%is, typ => 'access', account_type => $self->_account($account)->{type} // '',
            $branch ? (token_type => 'workspace', token_scope => 'BRANCH')
            : (token_type => 'account', token_scope => 'ACCOUNT'));
    }
    for my $name (sort keys %is) {
        return $name if ($t->{$name} // '') ne $is{$name};
    }
    my ($from, $to) = map { $self->_wall($_) } @$c{qw(b e)};
    $from -= $self->{rule}{window} // 0 if $c->{op} eq 'refresh';
    return 'iat' if $t->{iat} < $from - $self->_skew - 1 || $t->{iat} > $to + $self->_skew + 1;
    my $life = $self->{rule}{"${use}_ttl"};
    return 'exp' if $t->{exp} <= $t->{iat}
        || $life && $t->{exp} > $to + $self->_skew + $life + 1;
    return $branch && !$self->_is_row($c, $t, $account) ? 'workspace' : undef;
}

# Whether some state of the rows during the call is what the token says.
sub _is_row ($self, $c, $t, $account) {
    my $row = join '/', map { $t->{$_} // '' } qw(workspace_id tenant_id member_id roles);
    return any {
        my $can = $_;
        my $is = $can->{ $t->{active_branch_id} // '' };
        $is && $is->{row} eq $row && $t->{branch_ids} eq join '+',
            sort grep { $can->{$_}{workspace} eq $t->{workspace_id} } keys %$can;
    } _values($self->_account($account)->{can}, $c->{b}, $c->{e});
}

# -- causes --

sub _may_have_ended ($self, $c) {
    my $s = $self->{session}{ $c->{session} } // return 1;
    my ($maybe, $surely) = $self->_fate($s);
    $self->{in_time}++ if $c->{op} eq 'context' && $surely < $NEVER
        && $c->{b} > $surely + $self->{rule}{reach} && $c->{b} > $self->_reach($surely);
    return ($maybe < $c->{e}, 'out');
}

sub _may_have_expired ($self, $c) {
    my $t = $self->{access}{ $c->{token} // '' } // return 1;
    my $least = $t->[1] + ($self->{rule}{leeway} // 0) - $self->_skew;
    return ($self->_wall($c->{e}) >= $least, 'early');
}

sub _wrong_kind ($self, $c) {
    my $t = $self->{access}{ $c->{token} // '' } // return 1;
    return ($t->[2] ne ($c->{op} eq 'context' ? 'workspace' : 'account'), 'out');
}

# Whether the account may have been kept from a branch in [b, e].
sub _closed ($self, $account, $branch, $b, $e) {
    return any { !$_->{$branch} } _values($self->_account($account)->{can}, $b, $e);
}

sub _may_be_closed ($self, $c) {
    return ($self->_closed($c->{account}, $c->{branch}, $c->{b}, $c->{e}), 'branch');
}

sub _target_may_have_ended ($self, $c) {
    my $s = $self->{session}{ $c->{target} // '' } // return 1;
    return ($s->{account} ne $c->{account} || ($self->_fate($s))[0] < $c->{e}, 'out');
}

# Replaced by a call that came first; and the time for asking again is over, or its
# successor was used.
sub _may_be_stale ($self, $c) {
    return 1 if !$self->{issued}{ $c->{jti} };
    my $use = $self->{use}{ $c->{jti} };
    return (0, 'stale') if !$use || $use->{b} >= $c->{e};
    my $next = $self->{use}{ $use->{next} // '' };
    my $over = !$self->{rule}{window} || $c->{e} > $use->{b} + $self->{rule}{window}
        || $next && $next->{b} < $c->{e};
    return ($over, 'stale-early');
}

sub _may_be_wrong ($self, $c) {
    my $who = $self->_account($c->{account});
    my @secrets = _values($who->{secret}, $c->{b}, $c->{e});
    my $off = $c->{op} eq 'login' && any { $_ eq 'off' }
        _values($who->{status}, $c->{b}, $c->{e});
    my $other = !@secrets || any { $_ ne $c->{secret} } @secrets;
    return ($off || $other, 'out');
}

# -- lockout by failures --

# The attempts of one account from one address.  A window opens with the first that
# counts and lasts its time; a success, and a crash of the database, empty it.  One that
# was refused for its session may have counted.  Where it is not sure when a window
# opened, nothing is said until it is.
sub _attempts ($self, $all) {
    my ($most, $lasts) = @{ $self->{rule} }{qw(failures lockout)};
    return if !$most;
    my @all = sort { $a->{b} <=> $b->{b} } @$all;
    my @empties = grep { $_->[2] eq 'crash' } @{ $self->{fault} };
    push @empties, map { [ @$_{qw(b until)} ] } grep { $_->{yes} || $_->{asked} || $_->{unsure} }
        @all;
    my ($opened, $last, @failed) = (undef, -$NEVER);
    for my $c (@all) {
        if ($c->{status} == 429) {
            # One counts at any time while it lasts: the database may have been away.
            my $others = grep { $_->{b} < $c->{e} && $_->{until} > $c->{b} - $lasts - 1
                && $_->{status} != 429 } @all;
            $self->_bad($c, 'limited', "$others attempts only") if $others < $most;
            next;
        }
        my $maybe = $c->{status} == 401 && $c->{code} ne 'AUTH_INVALID_CREDENTIALS';
        ($opened, @failed) = ($maybe ? undef : $c->{b}) if $c->{b} > $last + $lasts + 1;
        $last = max($last, $c->{until});
        $opened = undef if defined $opened && $c->{e} >= $opened + $lasts - 1;
        next if !defined $opened || $maybe;
        my $emptied = max(-$NEVER, map { $_->[1] }
            grep { $_->[0] < $c->{e} && $_->[0] != $c->{b} } @empties);
        my @count = grep { $_->{b} > $emptied && $_->{e} < $c->{b} } @failed;
        $self->_bad($c, 'bypass', @count . ' failures before it')
            if @count >= $most && ($c->{yes} || $c->{asked} || $c->{status} == 401);
        push @failed, $c if $c->{status} == 401;
    }
}

1;
