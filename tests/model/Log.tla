-------------------------------- MODULE Log --------------------------------
(* The log behind SQLite's WAL: generations, records, syncs, checkpoints, the numbers by which log and file name each *)
(* other, several writers, power loss, copies that are put back. docs/internals/model.md says what is left out. *)
(* *)
(* A record is a transaction. The file is one value: Store.tla shows that a commit of it is there whole or not at all. *)
(* Each rule in quotes is a line of docs/internals/rules.md, and `Without` names those that are taken away. *)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Places,     \* for records, numbers from 1
    Handles, TxnMax,
    Begins, Checkpoints, Others, Truncations, Crashes, Failures, Copies, Rots,  \* how often each may happen
    Without

Keeps(rule) == rule \notin Without
Slots == {1, 2}
Other(s) == 3 - s
Last == Cardinality(Places)

VARIABLES log, file, handle,
    committed, durable,     \* what processes see, and what of it no power loss takes
    saved,                  \* copies of log and file, made by somebody
    drawn, clock, txns,     \* random numbers, time and transactions so far
    budget, bad             \* what was left of the log on purpose; what went wrong at a power loss
vars == <<log, file, handle, committed, durable, saved, drawn, clock, txns, budget, bad>>

(*************************************** two files ***************************************)

None == [none |-> TRUE]
BlankSlot == [seq |-> 0, own |-> 0, after |-> 0, base |-> <<>>]
TornSlot == [seq |-> -1, own |-> 0, after |-> 0, base |-> <<>>]
Blank == [own |-> 0, link |-> 0, txn |-> 0, witness |-> 0, synced |-> 0]
Torn == [own |-> -1, link |-> 0, txn |-> 0, witness |-> 0, synced |-> 0]
Slot(s) == <<"slot", s>>
Record(i) == <<"record", i>>
SlotPlaces == {Slot(s) : s \in Slots}
All == SlotPlaces \cup {Record(i) : i \in Places}
TornAt(place) == IF place \in SlotPlaces THEN TornSlot ELSE Torn

Write(l, place, value) == [l EXCEPT !.now[place] = value, !.may[place] = @ \cup {value, TornAt(place)}, !.lost[place] = {}]
Sync(l) == [l EXCEPT !.may = [place \in All |-> {l.now[place]} \cup l.lost[place]], !.uncut = {}]
(* The file is cut, which a power loss undoes for all places at once: `uncut` is what they may have had before. *)
Cut(l, places) ==
    LET blank(place) == IF place \in SlotPlaces THEN BlankSlot ELSE Blank
    IN  [l EXCEPT
            !.now = [place \in All |-> IF place \in places THEN blank(place) ELSE @[place]],
            !.may = [place \in All |-> IF place \in places THEN {blank(place)} ELSE @[place]],
            !.lost = [place \in All |-> IF place \in places THEN {} ELSE @[place]],
            !.uncut = @ \cup {[place \in All |-> l.may[place]]}]
GivenUp(l) == [l EXCEPT !.lost = [place \in All |-> IF l.may[place] = {l.now[place]} THEN {} ELSE l.may[place]]]

(* The newest commit of the file: its transactions, and its numbers. `unfinished`: only pages of some of the last ones. *)
(* `raw`: the newest record. A power loss may leave that of a commit of which not all is there. Works without commits of *)
(* rollback modes leave that out: it takes twice the states. *)
SyncFile(f) == [f EXCEPT !.may = {f.now}]
Commit(f, value) == [now |-> value, may |-> f.may \cup {value}, raw |-> value]
Settled(f) == [f EXCEPT !.raw = f.now]
Seen(f) == [f.raw EXCEPT !.content = f.now.content]

(*************************************** reading ***************************************)

Newest(slots) == IF slots[1].seq > 0 /\ slots[1].seq >= slots[2].seq THEN 1 ELSE 2
IsOne(slots) == slots[1].seq > 0 \/ slots[2].seq > 0
SlotsOf(now) == [s \in Slots |-> now[Slot(s)]]
RecordsOf(now) == [i \in Places |-> now[Record(i)]]

(* The records of a generation end before the first one that is not whole, or has another link. *)
Fits(record, own, link) ==
    /\ IF Keeps("records of another generation, or from another place, are none") THEN record.own = own ELSE record.own > 0
    /\ \/ record.link = link
       \/ ~Keeps("a record that a power loss left behind the tail does not follow what is written over the tail")
RECURSIVE Reach(_, _, _, _)
Reach(records, own, i, link) ==
    IF i < Last /\ Fits(records[i + 1], own, link) THEN Reach(records, own, i + 1, records[i + 1].txn) ELSE i
TailOf(records, own) == Reach(records, own, 0, 0)
LinkAt(records, i) == IF i = 0 THEN 0 ELSE records[i].txn
IsVouchedFor(records, own, tail) ==
    /\ Keeps("a record that is not whole is damage if a later one vouches for it")
    /\ \E j \in Places : j > tail + 1 /\ records[j].own = own /\ records[j].witness > tail

Read(kind, content, own, tail) == [kind |-> kind, content |-> content, own |-> own, tail |-> tail]
Without_log(f) == Read(IF f.unfinished THEN "mixture" ELSE "none", f.content, 0, 0)
Refused(f) ==
    IF f.unfinished /\ Keeps("in the midst of a checkpoint such a log is an error")
    THEN Read("error", f.content, 0, 0) ELSE [Without_log(f) EXCEPT !.kind = IF @ = "none" THEN "refused" ELSE @]

Look(now, f) ==
    LET slots == SlotsOf(now)
        records == RecordsOf(now)
        at == Newest(slots)
        slot == slots[at]
        own == slot.own
        otherBroken == slots[Other(at)].seq < 0
        tail == TailOf(records, own)
        reaches == /\ tail >= f.end \/ ~Keeps("so is one that ends before what the file has from it")
                   /\ f.end > tail \/ LinkAt(records, f.end) = f.link \/ ~Keeps("so is one that was cut off and went on otherwise")
        follows == IF own = f.current THEN reaches
                   ELSE slot.after = f.next \/ ~Keeps("a log that does not follow its file is empty")
        content == SubSeq([i \in Places |-> records[i].txn], 1, tail)
        \* SQLite brings the pages of its frames over those of the file: right if that has the first of them, or none.
        isRight == \E n \in 0..tail : f.content = slot.base \o SubSeq(content, 1, n)
    IN  IF ~IsOne(slots)
        THEN IF \/ slots = <<BlankSlot, BlankSlot>>
                \/ records[1] = Blank /\ Keeps("a log whose first slot was torn is empty")
             THEN IF f.unfinished /\ Keeps("in the midst of a checkpoint a log that is not there is an error")
                  THEN Read("error", f.content, 0, 0) ELSE Without_log(f)
             ELSE Read("damage", <<>>, 0, 0)
        ELSE IF otherBroken /\ tail = 0 /\ records[1] # Blank /\ Keeps("a slot that rots is not taken for one that was torn")
             THEN Read("damage", <<>>, 0, 0)
        ELSE IF IsVouchedFor(records, own, tail) THEN Read("damage", <<>>, 0, 0)
        ELSE IF ~follows THEN Refused(f)
        ELSE Read(IF isRight THEN "applied" ELSE "mixture", slot.base \o content, own, tail)
LookNow == Look(log.now, Seen(file))

(*************************************** a handle ***************************************)
(* What it knows of the generation: its number, where its records end, and how much of them was synced. *)

Closed == [own |-> 0, tail |-> 0, link |-> 0, synced |-> 0, begun |-> FALSE]
Refresh(x) ==
    LET found == LookNow
        records == RecordsOf(log.now)
    IN  IF found.own = x.own /\ x.own # 0
        THEN LET tail == IF Keeps("and takes up what others have appended") THEN Reach(records, x.own, x.tail, x.link) ELSE x.tail
             IN  [x EXCEPT !.tail = tail, !.link = LinkAt(records, tail)]
        ELSE IF x.own # 0 /\ ~Keeps("each call without a view looks whether another generation has begun") THEN x
        ELSE [Closed EXCEPT !.own = found.own, !.tail = found.tail, !.link = LinkAt(records, found.tail)]

(*************************************** the steps ***************************************)

Spend(what) == budget[what] > 0 /\ budget' = [budget EXCEPT ![what] = @ - 1]
Is(h, x) == handle' = [handle EXCEPT ![h] = x]
CanWork == ~budget.rotten /\ bad = "" /\ LookNow.kind \notin {"error", "damage"}

(* A transaction. The header of the generation was synced before its first record, as SQLite asks. *)
Transact(h) ==
    /\ CanWork /\ txns < TxnMax /\ txns' = txns + 1
    /\ LET x == Refresh(handle[h])
           at == x.tail + 1
           witness == IF Keeps("a frame tells what was synced") THEN x.synced ELSE 0
           began == IF x.begun /\ x.tail = 0 THEN Cut(Sync(log), {Record(i) : i \in Places}) ELSE log
       IN  /\ x.own # 0 /\ at <= Last /\ (x.begun \/ x.tail > 0)  \* SQLite writes a header before the first frame.
           /\ log' = Write(began, Record(at), [own |-> x.own, link |-> x.link, txn |-> txns', witness |-> witness, synced |-> x.synced])
           /\ Is(h, [x EXCEPT !.tail = at, !.link = txns', !.begun = FALSE])
    /\ committed' = Append(committed, txns')
    /\ UNCHANGED <<file, durable, saved, drawn, clock, budget, bad>>

SyncLog(h) ==
    /\ CanWork
    /\ LET x == Refresh(handle[h])
       IN  x.own # 0 /\ x.synced < x.tail /\ log' = Sync(log) /\ Is(h, [x EXCEPT !.synced = x.tail])
    /\ durable' = committed
    /\ UNCHANGED <<file, committed, saved, drawn, clock, txns, budget, bad>>

(* The system may have given up what it could not write. *)
SyncFails(h) ==
    /\ CanWork /\ Spend("failures")
    /\ LET x == Refresh(handle[h])
           again(place) == \/ place \in SlotPlaces
                           \/ \E i \in Places : place = Record(i) /\ x.synced < i /\ i <= x.tail
           lost == GivenUp(log)
       IN  /\ x.own # 0
           /\ log' = IF Keeps("what a failed sync may have given up is written again")
                     THEN [lost EXCEPT !.lost = [place \in All |-> IF again(place) THEN {} ELSE @[place]]] ELSE lost
           /\ Is(h, x)
    /\ UNCHANGED <<file, committed, durable, saved, drawn, clock, txns, bad>>

(* SQLite syncs its WAL, and brings some of its frames into the file, or all. Two commits, in one slot, if it is all. *)
Checkpoint(h) ==
    /\ CanWork /\ Spend("checkpoints")
    /\ LET x == Refresh(handle[h])
           f == Seen(file)
           records == RecordsOf(log.now)
           base == SlotsOf(log.now)[Newest(SlotsOf(log.now))].base
           before == IF f.current = x.own THEN Len(f.content) - Len(base) ELSE 0
           value(n, unfinished) == [content |-> base \o [i \in 1..n |-> records[i].txn], current |-> x.own,
                next |-> drawn + 1, end |-> x.tail, link |-> LinkAt(records, x.tail), unfinished |-> unfinished]
       IN  /\ x.own # 0 /\ x.tail > 0
           /\ \E n \in before..x.tail : n > 0 /\
                \/ file' = Commit(file, value(n, TRUE))
                \/ n = x.tail /\ file' = Commit(Commit(file, value(n, TRUE)), value(n, FALSE))
           /\ log' = Sync(log) /\ Is(h, [x EXCEPT !.synced = x.tail])
    /\ drawn' = drawn + 1 /\ durable' = committed
    /\ UNCHANGED <<committed, saved, clock, txns, bad>>

FlushFile ==
    /\ CanWork /\ file.may # {file.now} /\ file' = SyncFile(file)
    \* Without a log the commit of the file is all there is.
    /\ durable' = IF LookNow.kind \in {"none", "refused"} THEN committed ELSE durable
    /\ UNCHANGED <<log, handle, committed, saved, drawn, clock, txns, budget, bad>>

(* Who is about to write to the file takes back the record of what is not all there. *)
Settle ==
    /\ CanWork /\ file.raw # file.now /\ file' = Settled(file)
    /\ UNCHANGED <<log, handle, committed, durable, saved, drawn, clock, txns, budget, bad>>

(* A generation begins when all of the one before is in the file, flushed, or none is applied. *)
AllIsInFile == ~file.now.unfinished /\ file.now.content = committed
Begin(h) ==
    /\ CanWork /\ Spend("begins") /\ AllIsInFile
    /\ LET x == Refresh(handle[h])
           slots == SlotsOf(log.now)
           at == IF ~IsOne(slots) THEN 1
                 ELSE IF Keeps("slots take turns, so that a torn one leaves the generation before") THEN Other(Newest(slots))
                 ELSE Newest(slots)
           seq == IF IsOne(slots) THEN slots[Newest(slots)].seq + 1
                  ELSE clock
           \* What a power loss has left at the first place must not be taken for records of a generation whose slot is lost.
           isEmpty == ~IsOne(slots) \/ TailOf(RecordsOf(log.now), slots[Newest(slots)].own) = 0
           torn == IF IsOne(slots) THEN {Record(1)} ELSE All
           isClear == log.uncut = {} /\ \A place \in torn : log.now[place] = IF place \in SlotPlaces THEN BlankSlot ELSE Blank
           clear == IF isEmpty /\ ~isClear
                       /\ Keeps("a generation begins with nothing at its first place")
                    THEN Sync(Cut(log, torn)) ELSE log
           after == IF Keeps("nor after a record of which not all is there") THEN Settled(file) ELSE file
       IN  /\ x.own # 0 => file.may = {file.now}
           /\ log' = Write(clear, Slot(at), [seq |-> seq, own |-> drawn + 1, after |-> after.raw.next, base |-> file.now.content])
           /\ Is(h, [Closed EXCEPT !.own = drawn + 1, !.begun = TRUE])
           /\ file' = IF Keeps("the commit that it begins after is durable before it begins") THEN SyncFile(after) ELSE after
    /\ drawn' = drawn + 1 /\ clock' = clock + 10
    /\ UNCHANGED <<committed, durable, saved, txns, bad>>

(* The WAL is cut to nothing after a checkpoint, as journal_size_limit and wal_checkpoint(TRUNCATE) ask. *)
Truncate ==
    /\ CanWork /\ Spend("truncations") /\ AllIsInFile /\ file.may = {file.now} /\ IsOne(SlotsOf(log.now))
    /\ log' = Cut(log, All) /\ handle' = [h \in Handles |-> Closed]
    /\ UNCHANGED <<file, committed, durable, saved, drawn, clock, txns, bad>>

(* A transaction of a rollback mode: the WAL was deleted before, durably. It may be left unflushed. *)
CommitWithoutLog ==
    /\ CanWork /\ Spend("others") /\ AllIsInFile /\ file.may = {file.now} /\ txns < TxnMax /\ txns' = txns + 1
    /\ log' = Sync(Cut(log, All)) /\ handle' = [h \in Handles |-> Closed]
    /\ file' = Commit(file, [content |-> Append(committed, txns'), current |-> 0, next |-> drawn + 1, end |-> 0, link |-> 0,
                             unfinished |-> FALSE])
    /\ committed' = Append(committed, txns') /\ drawn' = drawn + 1
    /\ UNCHANGED <<durable, saved, clock, bad>>

(* Somebody copies a file, or puts a copy back, while no process has it open. What is there then is the truth. *)
Save ==
    /\ CanWork /\ Spend("copies") /\ saved = None
    /\ saved' = [log |-> log.now, file |-> file.now]
    /\ UNCHANGED <<log, file, handle, committed, durable, drawn, clock, txns, bad>>
PutBack ==
    /\ CanWork /\ saved # None /\ saved' = None
    /\ \E ofLog \in {log.now, saved.log, [place \in All |-> IF place \in SlotPlaces THEN BlankSlot ELSE Blank]},
          ofFile \in {file.now, saved.file} :
        /\ log' = [now |-> ofLog, may |-> [place \in All |-> {ofLog[place]}], lost |-> [place \in All |-> {}], uncut |-> {}]
        /\ file' = [now |-> ofFile, may |-> {ofFile}, raw |-> ofFile]
        /\ LET found == Look(ofLog, ofFile)
           IN  /\ committed' = found.content /\ durable' = found.content
               /\ bad' = IF found.kind = "mixture" THEN "a log was applied to another state of the file" ELSE ""
    /\ handle' = [h \in Handles |-> Closed]
    /\ UNCHANGED <<drawn, clock, txns, budget>>

PowerLoss ==
    /\ CanWork /\ Spend("crashes")
    /\ \E ofFile \in file.may, before \in {log.may} \cup log.uncut :
       \E raw \in (IF Others > 0 THEN {f \in file.may : f.next >= ofFile.next} ELSE {ofFile})
                  \cup (IF ofFile = file.now THEN {file.raw} ELSE {}) :
       LET blank(place) == IF place \in SlotPlaces THEN BlankSlot ELSE Blank
           may == [place \in All |-> IF before = log.may THEN before[place] ELSE before[place] \cup (log.may[place] \ {blank(place)})]
       IN
       \E one \in may[Slot(1)], two \in may[Slot(2)], a \in may[Record(1)], b \in may[Record(2)],
          c \in IF Last > 2 THEN may[Record(3)] ELSE {Blank} :
        LET now == [place \in All |-> IF place = Slot(1) THEN one ELSE IF place = Slot(2) THEN two
                        ELSE IF place = Record(1) THEN a ELSE IF place = Record(2) THEN b ELSE c]
            found == Look(now, [raw EXCEPT !.content = ofFile.content])
            n == Len(found.content)
        IN
        /\ file' = [now |-> ofFile, may |-> {ofFile}, raw |-> raw]
        /\ log' = [now |-> now, may |-> [place \in All |-> {now[place]}], lost |-> [place \in All |-> {}], uncut |-> {}]
        /\ bad' = IF found.kind = "mixture" THEN "a log was applied to another state of the file"
                         ELSE IF found.kind \in {"damage", "error"} THEN "a power loss was taken for damage"
                         ELSE IF n < Len(durable) \/ SubSeq(found.content, 1, Len(durable)) # durable THEN "what was durable is lost"
                         ELSE IF n > Len(committed) \/ SubSeq(committed, 1, n) # found.content THEN "what was not committed is there"
                         ELSE ""
        /\ committed' = found.content /\ durable' = found.content
    /\ handle' = [h \in Handles |-> Closed]
    /\ UNCHANGED <<saved, drawn, clock, txns>>

(* A record that a later one vouches for, or the newest slot when there are records. *)
Rot ==
    /\ CanWork /\ budget.rots > 0
    /\ budget' = [budget EXCEPT !.rots = @ - 1, !.rotten = TRUE]
    /\ LET slots == SlotsOf(log.now)
           records == RecordsOf(log.now)
           own == slots[Newest(slots)].own
           tail == TailOf(records, own)
       IN  /\ IsOne(slots) /\ tail > 0 /\ slots[Other(Newest(slots))].seq >= 0
           /\ \E place \in {Slot(Newest(slots))} \cup
                {Record(i) : i \in {i \in 1..tail : \E j \in i + 1..tail : records[j].synced >= i}} :
                log' = [log EXCEPT !.now[place] = TornAt(place), !.may[place] = {TornAt(place)}]
    /\ UNCHANGED <<file, handle, committed, durable, saved, drawn, clock, txns, bad>>

Next ==
    \/ \E h \in Handles : Transact(h) \/ SyncLog(h) \/ SyncFails(h) \/ Checkpoint(h) \/ Begin(h)
    \/ FlushFile \/ Settle \/ Truncate \/ CommitWithoutLog \/ Save \/ PutBack \/ PowerLoss \/ Rot

Init ==
    LET first == [content |-> <<>>, current |-> 0, next |-> 0, end |-> 0, link |-> 0, unfinished |-> FALSE]
        now == [place \in All |-> IF place \in SlotPlaces THEN BlankSlot ELSE Blank]
    IN  /\ log = [now |-> now, may |-> [place \in All |-> {now[place]}], lost |-> [place \in All |-> {}], uncut |-> {}]
        /\ file = [now |-> first, may |-> {first}, raw |-> first]
        /\ handle = [h \in Handles |-> Closed] /\ committed = <<>> /\ durable = <<>> /\ saved = None
        /\ drawn = 0 /\ clock = 1 /\ txns = 0 /\ bad = ""
        /\ budget = [begins |-> Begins, checkpoints |-> Checkpoints, others |-> Others, truncations |-> Truncations,
                     crashes |-> Crashes, failures |-> Failures, copies |-> Copies, rots |-> Rots, rotten |-> FALSE]

Spec == Init /\ [][Next]_vars

(*************************************** what has to hold ***************************************)

(* A power loss, or a copy that is put back, leaves a state that was committed; nothing durable is lost; and a log is *)
(* applied only to a state of the file that it follows. *)
NothingGoesWrong == bad = ""

(* Whoever looks at both files sees all that was committed. *)
AllSeeTheSame == budget.rotten \/ bad # "" \/ LookNow.kind = "error" \/
    (LookNow.kind \notin {"damage", "mixture"} /\ LookNow.content = committed)

(* What rots is told, or does no harm. *)
RotIsTold == budget.rotten => LookNow.kind \in {"damage", "error"} \/ LookNow.content = committed
=============================================================================
