------------------------------- MODULE Handle -------------------------------
(* A packed file on a disk that can fail, how recovery judges it, and what a handle does by itself: for Store.tla. *)
(* *)
(* Each rule in quotes is a line of docs/internals/rules.md. `Without` names the ones that are taken away: then TLC *)
(* has to find a counterexample. *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Pages,      \* of the database, numbers from 1
    Blocks,     \* places for extents, numbers from 1
    Handles,    \* processes that have the file open
    Values,     \* contents of a page, numbers from 0; 0 at first
    SeqMax,     \* commits are counted up to this
    Crashes, Kills, Failures, Rots,  \* how often each may happen
    Rewrites,   \* a transaction may write a page more than once
    GivesUp,    \* a failed sync may give up what it could not write, so that no later sync writes it
    Without

Keeps(rule) == rule \notin Without
Slots == {1, 2}
Other(slot) == 3 - slot

Torn == -1
TornRecord == [seq |-> Torn]
None == [none |-> TRUE]
Is(x) == x # None

(*************************************** the disk ***************************************)
(* For each place: what processes read, what a power loss may leave there, and what of that no sync will change, as a *)
(* failed one has given up the write. *)

Block(b) == <<"block", b>>
Slot(s) == <<"slot", s>>
Mark(s) == <<"mark", s>>
SlotPlaces == {Slot(s) : s \in Slots}
Places == {Block(b) : b \in Blocks} \cup SlotPlaces \cup {Mark(s) : s \in Slots}
TornAt(place) == IF place \in SlotPlaces THEN TornRecord ELSE Torn

Write(d, place, value) == [d EXCEPT
    !.now[place] = value,
    !.may[place] = @ \cup {value, TornAt(place)},
    !.lost[place] = {}]
Sync(d) ==
    IF Keeps("a flush really flushes; so does a new file's first commit")
    THEN [d EXCEPT !.may = [place \in Places |-> {d.now[place]} \cup d.lost[place]]]
    ELSE d
(* A sync that fails. Either a later one still counts for what it did not write, or it does not. *)
FailedSyncs(d) == {d} \cup
    IF GivesUp
    THEN {[d EXCEPT !.lost = [place \in Places |-> IF d.may[place] = {d.now[place]} THEN {} ELSE d.may[place]]]}
    ELSE {}

(*************************************** recovery ***************************************)
(* A record is a number of the commit, and for each page the block and the content that its checksum is of. *)

IsRecord(r) == r.seq # Torn
State(r) == [page \in Pages |-> r.map[page].content]
Refers(r) == {r.map[page].block : page \in Pages}
SlotsOf(now) == [s \in Slots |-> now[Slot(s)]]
MarksOf(now) == [s \in Slots |-> now[Mark(s)]]
Marked(now, seq) == \E s \in Slots : now[Mark(s)] = seq

Error == [error |-> TRUE]
Found(r, s, durable, fellBack) == [error |-> FALSE, record |-> r, slot |-> s, durable |-> durable, fellBack |-> fellBack]

(* "the file falls back only if the marks are consistent with a power loss" *)
MayBeCutOff(marks, former, at) ==
    \/ ~Keeps("the file falls back only if the marks are consistent with a power loss")
    \/ /\ marks[Other(at)] # Torn /\ marks[Other(at)] <= former.seq
       /\ marks[at] <= former.seq

(* `isWhole`: all that the newest record refers to and the other does not is there. *)
Judge(slots, marks, isWhole(_, _), live) ==
    LET at == IF IsRecord(slots[1]) /\ (~IsRecord(slots[2]) \/ slots[1].seq >= slots[2].seq) THEN 1 ELSE 2
        newest == slots[at]
        former == slots[Other(at)]
        durable == \E s \in Slots : marks[s] = newest.seq
    IN  IF ~IsRecord(newest) THEN Error
        ELSE IF Keeps("a missing durable commit is damage") /\ \E s \in Slots : marks[s] > newest.seq THEN Error
        ELSE IF ~IsRecord(former)
             THEN IF MayBeCutOff(marks, newest, at) THEN Found(newest, at, durable, TRUE) ELSE Error
        ELSE IF durable \/ live \/ ~Keeps("a record that is not all there is rejected") \/ isWhole(newest, former)
             THEN Found(newest, at, durable, FALSE)
        ELSE IF MayBeCutOff(marks, former, Other(at)) THEN Found(former, Other(at), TRUE, TRUE)
        ELSE Error

IsThere(now, r) == \A page \in Pages : now[Block(r.map[page].block)] = r.map[page].content
IsWholeIn(now, r, base) ==
    \A page \in Pages : r.map[page] = base.map[page] \/ now[Block(r.map[page].block)] = r.map[page].content
JudgeNow(now, live) == LET isWhole(r, base) == IsWholeIn(now, r, base) IN Judge(SlotsOf(now), MarksOf(now), isWhole, live)

(*************************************** a handle ***************************************)
(* The commit that it is at, the slots as it knows them, and while it has made that commit: its free space, how to *)
(* undo it, the mark that it has written. `undo`: a record that is to be replaced by what was in its slot. *)

Closed == [at |-> None]
IsOpen(x) == Is(x.at)
Forget(x) == [x EXCEPT !.space = None, !.before = None, !.marked = None]

Refresh(d, x) ==
    IF IsOpen(x) /\ x.slots = SlotsOf(d.now) THEN x
    ELSE LET found == JudgeNow(d.now, IsOpen(x))
         IN  [at |-> found.record, slot |-> found.slot, durable |-> found.durable, fellBack |-> found.fellBack,
              slots |-> SlotsOf(d.now),
              space |-> None, before |-> None, marked |-> None, change |-> None,
              undo |-> IF IsOpen(x) THEN x.undo ELSE None]

(* Free space as it is read from the file: all that the commit, which is durable, does not refer to. *)
Loaded(r) == [free |-> Blocks \ Refers(r), afterCommit |-> {}, afterFlush |-> {}, fresh |-> {}, unflushed |-> {}]
Release(space, b) ==
    IF b \in space.fresh THEN [space EXCEPT !.fresh = @ \ {b}, !.free = @ \cup {b}]
    ELSE IF b \in space.unflushed
         THEN IF Keeps("bytes of an unflushed commit wait until the next one is published")
              THEN [space EXCEPT !.unflushed = @ \ {b}, !.afterCommit = @ \cup {b}]
              ELSE [space EXCEPT !.unflushed = @ \ {b}, !.free = @ \cup {b}]
    ELSE IF Keeps("bytes freed by a commit wait until it is durable")
         THEN [space EXCEPT !.afterFlush = @ \cup {b}]
         ELSE [space EXCEPT !.afterCommit = @ \cup {b}]
Published(space) == [space EXCEPT
    !.free = @ \cup space.afterCommit, !.afterCommit = {}, !.unflushed = @ \cup space.fresh, !.fresh = {}]
Flushed(space) == [space EXCEPT !.free = @ \cup space.afterFlush, !.afterFlush = {}, !.unflushed = {}]

Both(d, x) == [d |-> d, x |-> x]

(* Puts the former bytes of a slot back, unless another record is there, or another handle has made this one durable. *)
PutBack(d, x) ==
    IF ~Is(x.undo) THEN Both(d, x)
    ELSE LET u == x.undo
             found == d.now[Slot(u.slot)]
             stays == IF found = u.right THEN FALSE
                      ELSE IF found = u.wrong
                      THEN Marked(d.now, u.wrong.seq)
                      ELSE IsRecord(found)
         IN  IF stays THEN Both(d, [x EXCEPT !.undo = None])
             ELSE Both(Write(d, Slot(u.slot), u.right), [x EXCEPT !.undo.written = TRUE])
FinishUndo(d, x) == IF Is(x.undo) /\ ~x.undo.written THEN PutBack(d, x) ELSE Both(d, x)
PutBackAgain(d, x) ==
    IF Keeps("nor after a write that reports an error and is done, or done in part, or a failed fsync after which the system gives up what it had")
    THEN PutBack(d, x) ELSE FinishUndo(d, x)
BeginUndo(x, slot, wrong, right) == [x EXCEPT
    !.slots[slot] = right, !.undo = [slot |-> slot, wrong |-> wrong, right |-> right, written |-> FALSE]]
(* The write that undoes succeeds, or fails and is tried again. *)
Undone(d, x, fails) == {FinishUndo(d, x)} \cup (IF fails THEN {Both(d, x)} ELSE {})

(* Which mark a handle has written matters where there is rot. *)
WriteMark(d, x) == Both(Write(d, Mark(x.slot), x.at.seq),
    [x EXCEPT !.marked = IF Rots > 0 THEN [seq |-> x.at.seq, durable |-> FALSE] ELSE None])
IsMarked(x) == Is(x.marked) /\ x.marked.seq = x.at.seq

(* A failed sync may have left half of a mark on the medium, while processes see all of it. *)
WriteMarkAgain(d, x) ==
    IF x.durable /\ Keeps("a flush that fails writes the mark of the commit before again")
    THEN WriteMark(d, x) ELSE Both(d, x)

TellDurable(d, x) ==
    IF Marked(d.now, x.at.seq) \/ ~Keeps("it says in the mark that the commit is durable, or writes nothing")
    THEN Both(d, x) ELSE WriteMark(d, x)
(* The slot of a mark that a power loss has torn must not be written before the mark is whole. *)
MendMark(d, x) ==
    LET other == Other(x.slot)
    IN  IF /\ Keeps("a mark that a power loss tore is written again before the next commit is durable")
           /\ d.now[Mark(other)] = Torn /\ IsRecord(d.now[Slot(other)])
        THEN Write(d, Mark(other), d.now[Slot(other)].seq) ELSE d

(* Before a handle writes after a commit that it has not made itself, it makes that durable and says so. *)
Learnt(d, x) ==
    IF /\ Keeps("who made that commit looks at the marks before it follows the commit")
       /\ ~x.durable /\ Marked(d.now, x.at.seq)
    THEN [Forget(x) EXCEPT !.durable = TRUE] ELSE x
TakesOver(d, x) == LET learnt == Learnt(d, x) IN ~learnt.durable /\ ~Is(learnt.space)
TakeOver(d, x) ==
    LET learnt == Learnt(d, x)
    IN  IF ~TakesOver(d, x) THEN Both(d, learnt)
        ELSE LET over == Keeps("a record that was put back is not written again once its commit was taken over")
                 put == IF over THEN PutBackAgain(d, learnt) ELSE Both(d, learnt)
                 mended == MendMark(put.d, put.x)
                 synced == IF Keeps("a handle that takes over flushes first") THEN Sync(mended) ELSE mended
                 told == TellDurable(synced, [put.x EXCEPT !.durable = TRUE, !.undo = IF over THEN None ELSE @])
             IN  Both(told.d, Forget(told.x))

(* After a power loss has cut a commit off, its record is still there, and what is missing of it could be written again
   by chance. So it is written over, durably, before anything else is. *)
WriteOver(d, x) ==
    IF x.fellBack /\ Keeps("what a power loss cut off does not come back when the same is tried again")
    THEN Both(Sync(Write(d, Slot(Other(x.slot)), x.at)), [x EXCEPT !.fellBack = FALSE, !.slots[Other(x.slot)] = x.at])
    ELSE Both(d, x)

(* A transaction begins, which ends what could be undone: it may take what the commit before needs. *)
Begin(d, x) ==
    LET over == WriteOver(d, x)
        took == TakeOver(over.d, over.x)
        told == IF Is(took.x.space) THEN took ELSE LET t == TellDurable(took.d, took.x) IN Both(t.d, Forget(t.x))
        space == IF Is(told.x.space) THEN told.x.space ELSE Loaded(told.x.at)
        kept == IF Keeps("it is not undone after what comes next may have overwritten what the commit before needs")
                THEN [told.x EXCEPT !.before = None] ELSE told.x
    IN  Both(told.d, [kept EXCEPT !.space = None, !.change = [space |-> space, map |-> kept.at.map]])

(* "the last durable commit keeps its slot" *)
SlotAfter(x) == IF x.durable \/ ~Keeps("the last durable commit keeps its slot") THEN Other(x.slot) ELSE x.slot
=============================================================================
