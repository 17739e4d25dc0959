---------------------------- MODULE FirstVersions ----------------------------
(* First versions in a log as differences to the page of the commit that their generation begins after. The log's *)
(* slot has a copy of that commit's record. Who is about to write to the file looks at the log, and takes nothing of what *)
(* that commit has. docs/internals/log.md argues the design, "First versions". *)
(* *)
(* The database is one page, and a commit has a block for it. A generation has at most one record. *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Blocks, DrawnMax,
    Maintained, Others, Cuts, Deletions, Crashes, Failures, Looks,  \* how often each may happen
    Without

(* The rules: rows of docs/internals/rules.md, with a word of what in them is taken away. *)
Keeps(rule) == rule \notin Without

Held == Keeps("what a generation began after is held: not taken, erased or cut off")
FlagStays == Keeps("a commit that keeps the numbers keeps the flag")
NumbersStay == Keeps("a commit says which log follows it (no other one while a generation can begin)")
LearntIsDurable == Keeps("what is learnt of a log is durable before it is used, also that it is empty or gone")
EmptyIsDurable ==
    Keeps("what is learnt of a log is durable before it is used, also that it is empty or gone (that it needs nothing)")
EmptyIsNotKnown ==
    Keeps("what is learnt of a log is durable before it is used, also that it is empty or gone (each time)")
GoneIsDurable ==
    Keeps("what is learnt of a log is durable before it is used, also that it is empty or gone (gone)")
RefusedMayBeNeeded == Keeps("what is refused by a commit without a mark may be needed")
RefusedIsOver == Keeps("what is refused by a commit without a mark may be needed (and by others not)")
GivenUpIsWrittenAgain == Keeps("what a failed sync gave up is written again before anything is taken")
LooksAgain == Keeps("a generation stands on a commit that was the newest when it had said so")
OtherSlot == Keeps("no slot is written twice: another generation begins, in the other one")
OtherGeneration ==
    Keeps("no slot is written twice: another generation begins, in the other one (another generation)")
FormerIsDurable == Keeps("the generation before is durable before a slot is written")
CutIsDurable == Keeps("the generation before is durable before a slot is written (if there is none)")
CommitIsDurable ==
    Keeps("the commit whose record a slot has is durable before, and its successors look at the log")
BaseOfTheSlot ==
    Keeps("a first version whose base is not there is damage, and no other page (of no other commit)")

VARIABLES
    file, block, log,
    writer,     \* who begins a generation: it looks at the file, writes a slot, looks again
    txn,        \* a transaction on the file: what it holds
    reader,     \* a handle that knows a generation
    live,       \* the generation whose record is committed
    known,      \* what of the log the one who writes to the file has synced
    drawn, budget
vars == <<file, block, log, writer, txn, reader, live, known, drawn, budget>>

(*************************************** two files ***************************************)
(* Each place has what processes see, `now`, and all that a power loss may leave, `may`. *)

Torn == -1
Places == {1, 2, 3}     \* two slots, and the record
Blank == [seq |-> 0, own |-> 0, after |-> 0, block |-> 0, content |-> 0]
TornPlace == [Blank EXCEPT !.seq = Torn, !.own = Torn]
BlankLog == <<Blank, Blank, Blank>>

Put(x, value) == [now |-> value, may |-> x.may \cup {value}]
Fixed(x) == [x EXCEPT !.may = {x.now}]

LogOf(now) ==
    [now |-> now, may |-> [place \in Places |-> {now[place]}], lost |-> [place \in Places |-> {}], there |-> TRUE,
     uncut |-> {}]
Write(l, place, value) ==
    [l EXCEPT !.now[place] = value, !.may[place] = @ \cup {value, TornPlace}, !.lost[place] = {}, !.there = TRUE]
(* `lost` is what a failed sync has given up: no later sync writes it. *)
Sync(l) == [l EXCEPT !.may = [place \in Places |-> {l.now[place]} \cup l.lost[place]], !.uncut = {}]
GivenUp(l) == [l EXCEPT !.lost = [place \in Places |-> IF l.may[place] = {l.now[place]} THEN {} ELSE l.may[place]]]
(* What was there before a cut or a deletion may come back: after a cut together with what was written since. *)
Gone(l, isThere) ==
    [LogOf(BlankLog) EXCEPT !.there = isThere,
        !.uncut = {[u EXCEPT !.isCut = @ /\ isThere] : u \in l.uncut \cup {[may |-> l.may, isCut |-> TRUE]}}]

(* All that a power loss may leave of the log. *)
AllOf(may) == {<<a, b, c>> : a \in may[1], b \in may[2], c \in may[3]}
Since(place, u) == IF u.isCut THEN log.may[place] \ {Blank} ELSE {}
Left == AllOf(log.may) \cup UNION {AllOf([place \in Places |-> u.may[place] \cup Since(place, u)]) : u \in log.uncut}

Newest(now) == IF now[1].seq > 0 /\ now[1].seq >= now[2].seq THEN 1 ELSE 2
IsOne(now) == now[1].seq > 0 \/ now[2].seq > 0
Follows(s, f) == s.own > 0 /\ (s.own = f.current \/ s.after = f.next)
(* The slot of the generation that is applied to this commit; a blank one if there is none. *)
Applied(now, f) == IF IsOne(now) /\ Follows(now[Newest(now)], f) THEN now[Newest(now)] ELSE Blank

Slot == log.now[Newest(log.now)]
Record == log.now[3]
IsDurable == file.may = {file.now}
(* All that is committed in the log is in the file. *)
AllIsInFile == Slot.own # live \/ Record.own # live \/ file.now.current = live \/ ~IsOne(log.now)

(*************************************** who writes to the file ***************************************)

(* All that was ever written: what is held if there is no telling. *)
Everything == {b \in Blocks : block[b].may # {Torn}}

IsBlank == log.now[1] = Blank /\ log.now[2] = Blank
IsRefused == ~IsBlank /\ Applied(log.now, file.now) = Blank
Needs ==
    IF IsBlank THEN {}
    ELSE IF IsRefused
    THEN IF IF IsDurable THEN RefusedIsOver ELSE ~RefusedMayBeNeeded THEN {} ELSE Everything
    ELSE IF Applied(log.now, file.now).block = 0 THEN {} ELSE {Applied(log.now, file.now).block}

(* What was found out is durable before it is used. *)
Learns ==
    LET own == IF IsOne(log.now) THEN Slot.own ELSE 0
        isKnown == known = own /\ (own > 0 \/ ~EmptyIsNotKnown)
        mustSync == IF Needs # {} THEN LearntIsDurable ELSE IF log.there THEN EmptyIsDurable ELSE GoneIsDurable
    IN  IF isKnown \/ ~mustSync THEN UNCHANGED <<log, known>> ELSE log' = Sync(log) /\ known' = own

(* Maintenance keeps checkpoints out, and not writers. A checkpoint has something to copy, so no generation begins. A *)
(* transaction of a rollback mode has all for itself. *)
MayBegin(kind) ==
    IF kind = "maintenance" THEN budget.maintained > 0
    ELSE /\ writer.phase = "idle" \/ (kind = "other" /\ ~NumbersStay)
         /\ drawn < DrawnMax
         /\ IF kind = "checkpoint" THEN live > 0 /\ Record.own = live /\ Applied(log.now, file.now).own = live
            ELSE budget.others > 0 /\ AllIsInFile

NoTxn == [kind |-> "none", held |-> {}]
TxnBegins(kind) ==
    /\ txn = NoTxn /\ MayBegin(kind)
    /\ IF ~file.now.logged THEN txn' = [kind |-> kind, held |-> {}] /\ UNCHANGED <<log, known>>
       ELSE txn' = [kind |-> kind, held |-> Needs] /\ Learns
    /\ UNCHANGED <<file, block, writer, reader, live, drawn, budget>>

SyncFails ==
    /\ txn = NoTxn /\ budget.failures > 0 /\ budget' = [budget EXCEPT !.failures = @ - 1] /\ log.there
    /\ LET lost == GivenUp(log)
       IN  log' = IF GivenUpIsWrittenAgain
                  THEN [lost EXCEPT !.lost = log.lost] ELSE lost
    /\ UNCHANGED <<file, block, writer, txn, reader, live, known, drawn>>

(* "bytes freed by a commit wait until it is durable", and what is held is not free. *)
Free == Blocks \ ({c.block : c \in file.may} \cup IF Held THEN txn.held ELSE {})
IsLogged(f) ==
    \/ f.current # 0 \/ txn.held # {}
    \/ txn.kind = "maintenance" /\ file.now.logged /\ FlagStays
Publish(f) == file' = Put(file, [f EXCEPT !.seq = @ + 1, !.logged = IsLogged(f)])
Take(f) ==
    \E b \in Free :
        /\ block' = [block EXCEPT ![b] = [now |-> f.content, may |-> @.may \cup {f.content, Torn}]]
        /\ Publish([f EXCEPT !.block = b])

(* Maintenance moves the page, or drops its content if SQLite has it on the list of free pages. *)
TxnEnds ==
    /\ txn # NoTxn /\ txn' = NoTxn
    /\ CASE txn.kind = "maintenance" ->
                /\ budget' = [budget EXCEPT !.maintained = @ - 1] /\ UNCHANGED drawn
                /\ \/ file.now.block # 0 /\ Take(file.now)
                   \/ file.now.block # 0 /\ Publish([file.now EXCEPT !.block = 0, !.content = 0]) /\ UNCHANGED block
         [] txn.kind = "checkpoint" ->
                /\ drawn' = drawn + 1 /\ UNCHANGED budget
                /\ Take([file.now EXCEPT !.current = live, !.next = drawn', !.content = live])
         [] txn.kind = "other" ->
                /\ drawn' = drawn + 1 /\ budget' = [budget EXCEPT !.others = @ - 1]
                /\ Take([file.now EXCEPT !.current = 0, !.next = drawn', !.content = drawn'])
    /\ live' = IF txn.kind = "other" THEN 0 ELSE live
    /\ UNCHANGED <<log, writer, reader, known>>

FlushFile ==
    /\ ~IsDurable /\ txn = NoTxn
    /\ file' = Fixed(file) /\ block' = [b \in Blocks |-> Fixed(block[b])]
    /\ UNCHANGED <<log, writer, txn, reader, live, known, drawn, budget>>

(*************************************** who writes to the log ***************************************)

Idle == [phase |-> "idle", slot |-> 0, seen |-> 0, stands |-> FALSE]
Standable(f) == f.logged /\ f.block # 0 /\
    (IsDurable \/ ~CommitIsDurable)

BeginLooks ==
    /\ writer.phase = "idle" /\ AllIsInFile /\ txn.kind \in {"none", "maintenance"} /\ drawn < DrawnMax
    /\ writer' = [phase |-> "looked", slot |-> IF IsOne(log.now) THEN 3 - Newest(log.now) ELSE 1, seen |-> file.now,
                  stands |-> Standable(file.now)]
    /\ UNCHANGED <<file, block, log, txn, reader, live, known, drawn, budget>>

BeginWrites ==
    /\ writer.phase \in {"looked", "again"} /\ drawn < DrawnMax
    /\ LET s == writer.seen
           isFirst == writer.phase = "looked" \/ OtherGeneration
           own == IF isFirst THEN drawn + 1 ELSE Slot.own
           seq == IF isFirst THEN drawn + 1 ELSE Slot.seq + 1
           slot == [seq |-> seq, own |-> own, after |-> s.next, block |-> IF writer.stands THEN s.block ELSE 0,
                    content |-> IF writer.stands THEN s.content ELSE 0]
           before == IF IF IsBlank THEN log.there /\ CutIsDurable ELSE FormerIsDurable THEN Sync(log) ELSE log
       IN  /\ log' = Write(before, writer.slot, slot)
           /\ drawn' = IF isFirst THEN drawn + 1 ELSE drawn
           /\ writer' = [writer EXCEPT !.phase = IF writer.stands /\ LooksAgain THEN "written" ELSE "open"]
    /\ UNCHANGED <<file, block, txn, reader, live, known, budget>>

BeginLooksAgain ==
    /\ writer.phase = "written"
    /\ writer' = IF file.now.seq = writer.seen.seq THEN [writer EXCEPT !.phase = "open"]
                 ELSE [writer EXCEPT !.seen = file.now, !.stands = Standable(file.now), !.phase = "again",
                                     !.slot = IF OtherSlot THEN 3 - @ ELSE @]
    /\ UNCHANGED <<file, block, log, txn, reader, live, known, drawn, budget>>

(* A first version, as a difference to the page that the slot names. It is committed, or SQLite's rollback leaves it. *)
Append ==
    /\ writer.phase = "open" /\ writer' = Idle
    /\ LET base == IF BaseOfTheSlot THEN Slot.content ELSE file.now.content
       IN  log' = Write(log, 3, [Blank EXCEPT !.own = Slot.own, !.block = IF Slot.block = 0 THEN 0 ELSE 1,
                                             !.content = IF Slot.block = 0 THEN 0 ELSE base])
    /\ live' \in {live, Slot.own}
    /\ UNCHANGED <<file, block, txn, reader, known, drawn, budget>>

Killed ==
    /\ writer.phase # "idle" /\ writer' = Idle
    /\ UNCHANGED <<file, block, log, txn, reader, live, known, drawn, budget>>

SyncLog ==
    /\ log.there /\ (log.uncut # {} \/ \E place \in Places : log.may[place] # {log.now[place]})
    /\ log' = Sync(log)
    /\ UNCHANGED <<file, block, writer, txn, reader, live, known, drawn, budget>>

(* wal_checkpoint(TRUNCATE), and the close of the last connection. Neither is synced. *)
CanGo == writer.phase = "idle" /\ AllIsInFile /\ ~IsBlank /\ IsDurable
Cut ==
    /\ CanGo /\ budget.cuts > 0 /\ budget' = [budget EXCEPT !.cuts = @ - 1]
    /\ log' = Gone(log, TRUE) /\ UNCHANGED <<file, block, writer, txn, reader, live, known, drawn>>
Delete ==
    /\ CanGo /\ txn = NoTxn /\ budget.deletions > 0 /\ budget' = [budget EXCEPT !.deletions = @ - 1]
    /\ log' = Gone(log, FALSE) /\ UNCHANGED <<file, block, writer, txn, reader, live, known, drawn>>

Look ==
    /\ budget.looks > 0 /\ budget' = [budget EXCEPT !.looks = @ - 1]
    /\ Applied(log.now, file.now).own > 0 /\ Slot.own # reader.own
    /\ reader' = [own |-> Slot.own, content |-> Slot.content]
    /\ UNCHANGED <<file, block, log, writer, txn, live, known, drawn>>

PowerLoss ==
    /\ budget.crashes > 0 /\ budget' = [budget EXCEPT !.crashes = @ - 1]
    /\ \E f \in file.may, l \in Left, content \in [Blocks -> 0..DrawnMax \cup {Torn}] :
        /\ \A b \in Blocks : content[b] \in block[b].may
        /\ f.block # 0 => content[f.block] = f.content
        /\ file' = [now |-> f, may |-> {f}]
        /\ log' = LogOf(l)
        /\ block' = [b \in Blocks |-> [now |-> content[b], may |-> {content[b]}]]
        \* What of the log is lost then is the matter of Log.tla.
        /\ live' = IF l[3].own = live /\ Applied(l, f).own = live THEN live ELSE 0
    /\ writer' = Idle /\ txn' = NoTxn /\ reader' = [own |-> 0, content |-> 0] /\ known' = Torn
    /\ UNCHANGED drawn

Next ==
    \/ \E kind \in {"maintenance", "checkpoint", "other"} : TxnBegins(kind)
    \/ TxnEnds \/ FlushFile \/ SyncFails
    \/ BeginLooks \/ BeginWrites \/ BeginLooksAgain \/ Append \/ Killed
    \/ SyncLog \/ Cut \/ Delete \/ Look \/ PowerLoss

(* A first generation stands on the commit in block 1. All of it is in the file, by the commit in block 2. *)
Init ==
    LET second == [seq |-> 2, block |-> 2, content |-> 2, current |-> 2, next |-> 3, logged |-> TRUE]
        slot == [seq |-> 2, own |-> 2, after |-> 1, block |-> 1, content |-> 1]
        record == [slot EXCEPT !.seq = 0, !.after = 0]
        content(b) == IF b < 3 THEN b ELSE Torn
    IN  /\ file = [now |-> second, may |-> {second}]
        /\ block = [b \in Blocks |-> [now |-> content(b), may |-> {content(b)}]]
        /\ log = LogOf(<<Blank, slot, record>>)
        /\ writer = Idle /\ txn = NoTxn /\ reader = [own |-> 0, content |-> 0] /\ live = 2 /\ known = Torn /\ drawn = 3
        /\ budget = [maintained |-> Maintained, others |-> Others, cuts |-> Cuts, deletions |-> Deletions,
                     crashes |-> Crashes, failures |-> Failures, looks |-> Looks]
Spec == Init /\ [][Next]_vars

(*************************************** what has to hold ***************************************)

(* Whatever a power loss leaves: each record of a log that follows the file is read, on the page it was made from. *)
(* SQLite reads them all, also those of a transaction that was rolled back. *)
TheBaseIsThere ==
    \A f \in file.may, l \in Left :
        LET s == Applied(l, f)
        IN  \* A commit of which a part is missing is not the current one.
            (s.block # 0 /\ l[3].own = s.own /\ (f.block = 0 \/ f.content \in block[f.block].may))
                => block[s.block].may = {s.content} /\ l[3].content = s.content

(* Who knows the generation of a record decodes it on the page that it was made from. *)
ReadersHaveTheSame == (reader.own = Record.own /\ Record.block # 0) => reader.content = Record.content

(* What is committed in the log is read. *)
CommittedIsRead == ~AllIsInFile => Applied(log.now, file.now).own = live

(* Where nothing is in doubt only that is held which a log needs. *)
NothingIsHeldForNothing ==
    (IsDurable /\ Left = {log.now}) => Needs \subseteq {Applied(log.now, file.now).block}
=============================================================================
