package Platform::Test::History;

# Further rules of a history: second factors.  A call shows a
#
#   proof=FACTOR:STEP   the code of that step of 30 seconds
#   proof=r:HASH        a recovery code, of which codes= of an answer has the hash
#   proof=credential    the credential, secret= (a step-up)
#   proof=wrong         what is right nowhere
#
# A login that has to show one is answered 200 AUTH_FACTOR_REQUIRED, and ask= names its
# factorToken, as it does in what is sent with it.  A factor counts from its confirmation
# until it is dropped.

use v5.36;

use List::Util qw(any max min);

my ($TRIES, $ASK_LASTS) = (5, 300);    # of a factorToken
my ($GUESSES, $WINDOW) = (10, 900);    # of an account
my $FRESH = 300;
my $SLACK = 2;                         # of the database's clock

# -- what happened --

sub _learn_asked ($self, $c) {
    $self->_bad($c, 'id-twice', "factor token $c->{ask}") if $self->{ask}{ $c->{ask} };
    $self->{ask}{ $c->{ask} } = { account => $c->{account}, b => $c->{b}, e => $c->{e}, all => [] };
}

sub _learn_proof ($self, $c) {
    return if $c->{proof} =~ /^credential/;
    push @{ $self->{shown}{ $c->{account} } }, $c if $c->{op} ne 'confirm';
    push @{ $self->{tried}{ $c->{ask} } }, $c if defined $c->{ask};
    return if !$c->{yes} && !$c->{unsure};
    my ($of, $step) = $c->{proof} =~ /^(?!r:)(.+):(\d+)$/ ? ($1, $2) : ($c->{proof}, 0);
    $self->_bad($c, 'code-twice', 'it had a success before')
        if $c->{yes} && $self->{used_up}{ $c->{proof} }++;
    _write($self->{used}{$of} //= [], $c, $step);
}

sub _learn_verify ($self, $c) {
    my $tries = $self->{tried}{ $c->{ask} };
    $self->_bad($c, 'ask-twice', 'a factorToken opened two sessions')
        if $c->{yes} && $self->{opened}{ $c->{ask} }++;
    $self->_learn_login($c);
}

sub _learn_step ($self, $c) { $self->_authenticated($c, $c->{session}) }

sub _learn_add ($self, $c) {
    my $who = $self->_account($c->{account});
    push @{ $who->{added} }, [ @$c{qw(b until)} ];
    return if !defined $c->{factor};
    $self->{factor}{ $c->{factor} } = { account => $c->{account}, on => [], off => [], added => $c->{b} };
    push @{ $who->{factors} }, $self->{factor}{ $c->{factor} };
}

sub _learn_confirm ($self, $c) {
    push @{ $self->{late_factor} }, [ $c, 'on' ];
    $self->_authenticated($c, $c->{session});
    $self->_learn_codes($c) if defined $c->{codes} || $c->{unsure};
}

sub _learn_drop ($self, $c) { push @{ $self->{late_factor} }, [ $c, 'off' ] }

sub _learn_codes ($self, $c) {
    push @{ $self->_account($c->{account})->{sets} }, [ @$c{qw(b until yes)},
        { map { ($_ => 1) } split /,/, $c->{codes} // '' } ];
}

# What ends every login that is under way.
sub _end_logins ($self, $c) {
    push @{ $self->_account($c->{account})->{stamp} }, [ @$c{qw(b until yes)} ];
}

# How a session was authenticated, from now on.
sub _authenticated ($self, $c, $id) { push @{ $self->{late_amr} }, [ $c, $id, _amr($c) ] }

sub _amr ($c) {
    return $c->{op} eq 'login' || ($c->{proof} // '') eq 'credential' ? 'pwd' : 'mfa+otp+pwd';
}

sub _settle_factors ($self) {
    for (@{ delete $self->{late_factor} // [] }) {
        my ($c, $to) = @$_;
        my $f = $self->{factor}{ $c->{factor} } or next;
        push @{ $f->{$to} }, [ @$c{qw(b until yes)} ];
    }
    for (@{ delete $self->{late_amr} // [] }) {
        my ($c, $id, $amr) = @$_;
        my $s = $self->{session}{$id} or next;
        _write($s->{amr} //= [], $c, $amr);
        _write($s->{proved} //= [], $c, [ @$c{qw(b until)} ]);
    }
}

# -- what may have been --

# Whether a factor may have counted at some time in [b, e], and whether it surely did
# all that time.
sub _counts ($f, $b, $e) {
    my $may = any { $_->[0] < $e } @{ $f->{on} };
    my $sure = any { $_->[2] && $_->[1] < $b } @{ $f->{on} };
    return ($may && !(any { $_->[2] && $_->[1] < $b } @{ $f->{off} }),
        $sure && !(any { $_->[0] < $e } @{ $f->{off} }));
}

sub _factors ($self, $c, $sure) {
    return any { (_counts($_, $c->{b}, $c->{e}))[$sure] }
        @{ $self->_account($c->{account})->{factors} };
}

sub _may_have_factor ($self, $c) { return $self->_factors($c, 0) }

sub _has_factor ($self, $c) { return $self->_factors($c, 1) }

sub _may_lack_factor ($self, $c) { return (!$self->_has_factor($c), 'factors') }

# Whether what was shown may be right then, and had surely been used before.
sub _proof ($self, $c) {
    my ($proof, $b, $e) = @$c{qw(proof b e)};
    if ($proof =~ /^r:/) {
        my @sets = @{ $self->_account($c->{account})->{sets} };
        my ($set) = grep { $_->[3]{$proof} } @sets;
        my $is = $set && $set->[0] < $e
            && !any { $_->[2] && $_->[0] > $set->[1] && $_->[1] < $b } @sets;
        return ($is, any { $_->[2] && $_->[1] < $b } @{ $self->{used}{$proof} // [] });
    }
    my ($id, $step) = $proof =~ /^(.+):(\d+)$/ or return (0, 0);
    my $f = $self->{factor}{$id} or return (0, 0);
    my ($from, $to) = $self->_steps($b, $e, 1);
    my $counts = $c->{op} eq 'confirm' ? ($c->{factor} // '') eq $id : (_counts($f, $b, $e))[0];
    return ($f->{account} eq $c->{account} && $counts && $from <= $step && $step <= $to,
        any { $_->[2] && $_->[1] < $b && $_->[3] >= $step } @{ $self->{used}{$id} // [] });
}

# The steps that are accepted at some time in [b, e] or, with -1, all the time.
sub _steps ($self, $b, $e, $wide) {
    my $skew = $wide * ($self->_skew + 0.1);
    return map { int $_ } $self->_wall($wide > 0 ? $b : $e) / 30 - $skew / 30 - 1,
        $self->_wall($wide > 0 ? $e : $b) / 30 + $skew / 30 + 1;
}

# -- each answer --

sub _hold_asked ($self, $c) {
    $self->_hold_right($c);
    $self->_bad($c, 'asked', 'the account has no factor') if !$self->_may_have_factor($c);
}

sub _hold_proof ($self, $c) {
    my ($right, $used) = $self->_proof($c);
    $self->_bad($c, 'factor', 'what was shown is not right') if !$right;
    $self->_bad($c, 'code-twice', 'it, or a later one, had been used') if $used;
}

sub _hold_verify ($self, $c) {
    my $ask = $self->{ask}{ $c->{ask} } // return $self->_bad($c, 'strange', 'a factorToken');
    $self->_bad($c, 'strange', 'of another account') if $ask->{account} ne $c->{account};
    $self->_bad($c, 'expired', 'the factorToken had expired')
        if $c->{b} > $ask->{e} + $ASK_LASTS + $SLACK;
    my @wrong = grep { $_->{code} eq 'AUTH_FACTOR_INVALID' && $_->{e} < $c->{b} }
        @{ $self->{tried}{ $c->{ask} } };
    $self->_bad($c, 'tries', @wrong . ' before it') if @wrong >= $TRIES;
    $self->_bad($c, 'dead', 'the login had ended') if any {
        $_->[2] && $_->[0] > $ask->{e} && $_->[1] < $c->{b}
    } @{ $self->_account($c->{account})->{stamp} };
    $self->_hold_proof($c);
    $self->_hold_login($c);
}

sub _hold_step ($self, $c) {
    if ($c->{proof} eq 'credential') {
        $self->_hold_right($c);
        $self->_bad($c, 'no-factor', 'the account has a factor') if $self->_has_factor($c);
    }
    else {
        $self->_hold_proof($c);
    }
    $self->_tokens($c, $c->{session}, $c->{account});
}

sub _hold_change_of_factors ($self, $c) {
    my $f = defined $c->{factor} ? $self->{factor}{ $c->{factor} } : undef;
    $self->_bad($c, 'strange', 'of another account') if $f && $f->{account} ne $c->{account};
    my $s = $self->{session}{ $c->{session} } // return;
    $self->_bad($c, 'unfresh', 'its session is not fresh') if !any {
        $_->[1] + $FRESH + $SLACK > $c->{b}
    } _values($s->{proved} // [], $c->{b}, $c->{e});
    $self->_bad($c, 'unfresh', 'its session has no second factor')
        if $self->_has_factor($c) && !any {/mfa/} $self->_amrs($s, $c);
}

sub _hold_add ($self, $c) { $self->_hold_change_of_factors($c) }

sub _hold_codes ($self, $c) {
    $self->_hold_change_of_factors($c);
    $self->_bad($c, 'asked', 'the account has no factor') if !$self->_may_have_factor($c);
}

sub _hold_confirm ($self, $c) {
    $self->_hold_change_of_factors($c);
    $self->_hold_proof($c);
    my $f = $self->{factor}{ $c->{factor} } // return $self->_bad($c, 'strange', 'a factor');
    $self->_bad($c, 'factor', 'confirmed before') if 1 < grep { $_->[2] } @{ $f->{on} };
}

sub _hold_drop ($self, $c) {
    $self->_hold_change_of_factors($c);
    my $f = $self->{factor}{ $c->{factor} } // return $self->_bad($c, 'strange', 'a factor');
    $self->_bad($c, 'factor', 'dropped twice') if 1 < grep { $_->[2] } @{ $f->{off} };
}

# What access tokens say of how and when somebody was authenticated.
sub _hold_authentication ($self, $c) {
    return if !any { $_ eq $c->{op} } qw(login verify refresh select step);
    for my $t (map { _claims($_) } grep {defined} @$c{qw(access extra)}) {
        next if !defined $t->{amr};
        my $s = $self->{session}{ $t->{session_id} } // next;
        my $acr = $t->{amr} =~ /mfa/ ? 'aal2' : 'aal1';
        $self->_bad($c, 'authentication', "acr $t->{acr}") if $t->{acr} ne $acr;
        my @may = $c->{op} =~ /^(?:login|verify|step)$/ ? (_amr($c)) : $self->_amrs($s, $c);
        $self->_bad($c, 'authentication', "amr $t->{amr}") if !any { $_ eq $t->{amr} } @may;
        my $slack = $self->_skew + 1;
        $self->_bad($c, 'authentication', "auth_time $t->{auth_time}") if !any {
            $t->{auth_time} >= $self->_wall($_->[0]) - $slack
                && $t->{auth_time} <= $self->_wall($_->[1]) + $slack
        } _values($s->{proved}, $c->{b} - $self->_back($c), $c->{e});
    }
}

# A retry may tell what was so at the first try.
sub _back ($self, $c) { return $c->{op} eq 'refresh' ? $self->{rule}{window} // 0 : 0 }

sub _amrs ($self, $s, $c) { return _values($s->{amr} // [], $c->{b} - $self->_back($c), $c->{e}) }

# -- causes --

sub _may_be_no_factor ($self, $c) {
    my ($id, $step) = $c->{proof} =~ /^(?!r:)(.+):(\d+)$/ ? ($1, $2) : ($c->{proof}, 0);
    return (1, 'factor') if $c->{proof} eq 'wrong' || any {
        $_->[0] < $c->{e} && $_->[3] >= $step
            && ($_->[0] != $c->{b} || $_->[1] != $c->{e})
    } @{ $self->{used}{$id} // [] };
    my @sets = @{ $self->_account($c->{account})->{sets} };
    if ($c->{proof} =~ /^r:/) {
        my ($set) = grep { $_->[3]{ $c->{proof} } } @sets;
        return (!$set || $set->[1] > $c->{b} || !$self->_has_factor($c)
            || $self->_dropped($c) || (any { $_ != $set && $_->[1] > $set->[0] && $_->[0] < $c->{e} } @sets),
            'factor');
    }
    my $f = $self->{factor}{$id} or return (1, 'factor');
    my ($from, $to) = $self->_steps($c->{b}, $c->{e}, -1);
    my $counts = $c->{op} eq 'confirm' || (_counts($f, $c->{b}, $c->{e}))[1];
    return ($f->{account} ne $c->{account} || !$counts || $step < $from || $step > $to, 'factor');
}

# Whether the account may have been without a factor before it: no recovery code is left
# of that time.
sub _dropped ($self, $c) {
    return any { my $f = $_; any { $_->[0] < $c->{e} } @{ $f->{off} } }
        @{ $self->_account($c->{account})->{factors} };
}

sub _may_be_no_login ($self, $c) {
    my $ask = $self->{ask}{ $c->{ask} } or return (1, 'login');
    my $who = $self->_account($c->{account});
    my @others = grep { $_->{n} != $c->{n} && $_->{b} < $c->{e}
        && $_->{code} ne 'AUTH_FACTOR_TOKEN_INVALID' } @{ $self->{tried}{ $c->{ask} } };
    my $over = $c->{e} > $ask->{b} + $ASK_LASTS - $SLACK || @others >= $TRIES
        || (any { $_->{yes} || $_->{unsure} } @others)
        || any { $_->[0] < $c->{e} && $_->[1] > $ask->{b} } @{ $who->{stamp} }, @{ $who->{end} };
    return ($over, 'login');
}

# Whatever is under way counts as a failure meanwhile, and one that was killed for good.
sub _may_be_limited ($self, $c) {
    my $others = grep { $_->{n} != $c->{n} && $_->{status} != 429
        && $_->{b} < $c->{e} && $_->{until} > $c->{b} - $WINDOW - $SLACK }
        @{ $self->{shown}{ $c->{account} } };
    return ($others >= $GUESSES, 'limited');
}

# No fifteen minutes have more than ten, wherever they begin.
sub _guesses ($self, $all) {
    my @wrong = sort { $a->{b} <=> $b->{b} } grep { $_->{code} eq 'AUTH_FACTOR_INVALID' } @$all;
    for my $i (0 .. $#wrong - $GUESSES) {
        my $last = max(map { $_->{e} } @wrong[ $i .. $i + $GUESSES ]);
        $self->_bad($wrong[ $i + $GUESSES ], 'guesses', "more than $GUESSES in a window")
            if $last - $wrong[$i]{b} < $WINDOW;
    }
}

sub _may_be_unfresh ($self, $c) {
    return (1, 'fresh') if $c->{op} eq 'step' && $self->_may_have_factor($c);
    return (0, 'fresh') if $c->{op} !~ /^(?:add|confirm|drop|codes|change)$/
        || $c->{op} eq 'change' && !$self->_may_have_factor($c);
    my $s = $self->{session}{ $c->{session} } // return (1, 'fresh');
    return ((any { $_->[0] + $FRESH - $SLACK < $c->{e} } _values($s->{proved} // [], $c->{b}, $c->{e}))
        || $self->_may_have_factor($c) && (any { !/mfa/ } $self->_amrs($s, $c)), 'fresh');
}

# Confirmed or dropped before, or it gave way to another that waits for confirmation.
sub _may_be_gone ($self, $c) {
    my $f = $self->{factor}{ $c->{factor} } or return (1, 'factors');
    return (1, 'factors') if $f->{account} ne $c->{account};
    my $others = sub ($list) { any { $_->[0] < $c->{e} && $_->[0] != $c->{b} } @$list };
    return ($others->($f->{off}) || !(_counts($f, $c->{b}, $c->{e}))[1], 'factors')
        if $c->{op} eq 'drop';
    return ($others->($f->{on}) || (any { $_->[1] > $f->{added} && $_->[0] < $c->{e} && $_->[0] != $f->{added} }
            @{ $self->_account($c->{account})->{added} // [] })
        || $c->{e} > $f->{added} + 600 - $SLACK, 'factors');
}

1;
