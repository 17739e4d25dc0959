------------------------------- MODULE Store -------------------------------
(* Commits of a packed file: slots, records, marks, flushes, reuse of free space, several processes, failed calls, *)
(* power loss and recovery. docs/internals/model.md says what is left out. *)
(* *)
(* A step is what a handle does between two looks of others; a power loss within a step leaves nothing that one after *)
(* it does not, as it takes any part of what was not synced. *)
EXTENDS Handle

VARIABLES disk, handle, lock,
    \* What is promised: the database as processes see it; what it may be after a power loss; whether damage to it will be told.
    published, possible, vouched,
    budget, rotten
vars == <<disk, handle, lock, published, possible, vouched, budget, rotten>>

(*************************************** the steps ***************************************)

(* To have fewer states: content that no record names is as good as none. *)
RecordsOf(x) ==
    IF ~IsOpen(x) THEN {}
    ELSE {x.at} \cup (IF Is(x.before) THEN {x.before.at, x.before.bytes} ELSE {})
         \cup (IF Is(x.undo) THEN {x.undo.wrong, x.undo.right} ELSE {})
         \cup (IF Is(x.change) THEN {[seq |-> 0, map |-> x.change.map]} ELSE {})
Tidy(d, handles) ==
    LET records == UNION ({d.may[place] \cup d.lost[place] : place \in SlotPlaces} \cup {RecordsOf(handles[h]) : h \in Handles})
        named == UNION {{r.map[page] : page \in Pages} : r \in {r \in records : IsRecord(r)}}
        tidy(b, content) == IF [block |-> b, content |-> content] \in named THEN content ELSE Torn
    IN  [d EXCEPT
            !.now = [place \in Places |-> IF place[1] = "block" THEN tidy(place[2], @[place]) ELSE @[place]],
            !.may = [place \in Places |-> IF place[1] = "block" THEN {tidy(place[2], c) : c \in @[place]} ELSE @[place]],
            !.lost = [place \in Places |-> IF place[1] = "block" THEN {tidy(place[2], c) : c \in @[place]} ELSE @[place]]]
(* Of blocks that are alike one is taken. *)
Untouched(d, b) == d.may[Block(b)] = {Torn}
Takable(d, free) == {b \in free : ~Untouched(d, b) \/ \A c \in free : Untouched(d, c) => b <= c}

Spend(what) == budget[what] > 0 /\ budget' = [budget EXCEPT ![what] = @ - 1]
Idle(h) == lock = h /\ ~Is(handle[h].change)
Becomes(h, both) ==
    LET handles == [handle EXCEPT ![h] = both.x]
    IN  disk' = Tidy(both.d, handles) /\ handle' = handles
Promise(state, states, isVouched) == published' = state /\ possible' = states /\ vouched' = isVouched
PromiseAsBefore == UNCHANGED <<published, possible, vouched>>

Open(h) ==
    /\ lock = 0 /\ lock' = h
    /\ LET x == Refresh(disk, handle[h]) IN handle' = [handle EXCEPT ![h] = x]
    /\ PromiseAsBefore /\ UNCHANGED <<disk, budget, rotten>>

Change(h, page, value) ==
    /\ lock = h
    /\ LET x == handle[h]
           put == FinishUndo(disk, x)
           begun == IF Is(x.change) THEN Both(disk, x) ELSE Begin(put.d, put.x)
           change == begun.x.change
           old == change.map[page]
       IN  /\ begun.x.at.seq < SeqMax
           /\ old.content # value /\ (Rewrites \/ old.block \notin change.space.fresh)
           /\ \E b \in Takable(begun.d, change.space.free) :
                LET taken == [change.space EXCEPT !.free = @ \ {b}, !.fresh = @ \cup {b}]
                IN  Becomes(h, Both(Write(begun.d, Block(b), value), [begun.x EXCEPT !.change =
                        [space |-> Release(taken, old.block), map |-> [change.map EXCEPT ![page] = [block |-> b, content |-> value]]]]))
           \* A sync of another's commit is a promise: what only the one before needs is used from now on.
           /\ IF ~Is(x.change) /\ TakesOver(put.d, put.x) THEN Promise(published, {published}, vouched) ELSE PromiseAsBefore
    /\ UNCHANGED <<lock, budget, rotten>>

NewRecord(x) == [seq |-> x.at.seq + 1, map |-> x.change.map]

Publish(h) ==
    /\ lock = h /\ Is(handle[h].change)
    /\ LET x == handle[h]
           slot == SlotAfter(x)
           r == NewRecord(x)
           undo == IF Is(x.undo) /\ x.undo.slot = slot /\ Keeps("nor is the same commit taken for it when it is tried again")
                   THEN None ELSE x.undo
           written == Write(disk, Slot(slot), r)
           early == IF Keeps("a commit is marked when its flush has returned") THEN written ELSE Write(written, Mark(slot), r.seq)
       IN  /\ Becomes(h, Both(early, [x EXCEPT
                !.at = r, !.slot = slot, !.durable = FALSE, !.slots[slot] = r, !.change = None, !.undo = undo,
                !.space = Published(x.change.space),
                !.before = [at |-> x.at, slot |-> x.slot, durable |-> x.durable, bytes |-> x.slots[slot]]]))
           /\ Promise(State(r), possible \cup {State(r)}, FALSE)
    /\ UNCHANGED <<lock, budget, rotten>>

(* The write of the record reports an error: nothing, a part or all of it may be done. The transaction is dropped. *)
PublishFails(h) ==
    /\ lock = h /\ Is(handle[h].change) /\ Spend("failures")
    /\ LET x == handle[h]
           slot == SlotAfter(x)
           r == NewRecord(x)
           begun == BeginUndo([x EXCEPT !.change = None], slot, r, x.slots[slot])
       IN  \E d \in {disk, Write(disk, Slot(slot), r), Write(disk, Slot(slot), TornRecord)}, fails \in BOOLEAN :
            \E undone \in Undone(d, begun, fails) : Becomes(h, undone)
    /\ Promise(published, possible \cup {State(NewRecord(handle[h]))}, FALSE)
    /\ UNCHANGED <<lock, rotten>>

(* One flush has data and record. The number is written to the mark when it has returned. *)
Flush(h) ==
    /\ Idle(h) /\ ~handle[h].durable
    /\ LET put == PutBackAgain(disk, handle[h])
           flushed == [put.x EXCEPT !.durable = TRUE, !.undo = None, !.before = None,
                        !.space = IF Is(@) THEN Flushed(@) ELSE None]
           mended == IF Keeps("so it is if the commit is flushed without a transaction") THEN MendMark(put.d, put.x) ELSE put.d
       IN  Becomes(h, WriteMark(Sync(mended), flushed))
    /\ Promise(published, {published}, FALSE)
    /\ UNCHANGED <<lock, budget, rotten>>

(* The commit is undone, on disk too, if it can be. *)
FlushFails(h) ==
    /\ Idle(h) /\ ~handle[h].durable /\ Spend("failures")
    \* Left out is the gap that docs/design.md admits: that a commit which stays was given up. Such is an earlier one that
    \* was not flushed either, and this one, if the write that undoes it fails, too.
    /\ LET put == PutBack(disk, handle[h])
           x == put.x
           tries == IF Is(x.before) /\ ~x.before.durable THEN {put.d} ELSE FailedSyncs(put.d)
           undo == BeginUndo([x EXCEPT !.at = x.before.at, !.slot = x.before.slot, !.durable = x.before.durable,
                        !.space = None, !.before = None], x.slot, x.slots[x.slot], x.before.bytes)
       IN  \E d \in tries :
            IF Is(x.before)
            THEN /\ \E undone \in Undone(d, undo, d = put.d) : Becomes(h, WriteMarkAgain(undone.d, undone.x))
                 /\ Promise(State(x.before.at), possible, FALSE)
            ELSE /\ d = put.d
                 /\ Becomes(h, Both(d, [x EXCEPT !.space = None]))
                 /\ PromiseAsBefore
    /\ UNCHANGED <<lock, rotten>>

(* SQLite has rolled back, and asks for a flush before it deletes the journal. *)
FlushUndo(h) ==
    /\ Idle(h) /\ handle[h].durable /\ Is(handle[h].undo)
    /\ LET rule == Keeps("a commit that failed does not come back with a power loss, from the flush on that ends SQLite's rollback")
           put == PutBackAgain(disk, handle[h])
       IN  /\ Becomes(h, Both(IF Is(put.x.undo) /\ rule THEN Sync(put.d) ELSE put.d, [put.x EXCEPT !.undo = None]))
           /\ IF Is(put.x.undo) THEN Promise(published, {published}, vouched)
              ELSE Promise(State(JudgeNow(disk.now, FALSE).record), possible, FALSE)
    /\ UNCHANGED <<lock, budget, rotten>>

FlushUndoFails(h) ==
    /\ Idle(h) /\ handle[h].durable /\ Is(handle[h].undo) /\ Spend("failures")
    /\ LET put == PutBackAgain(disk, handle[h])
       IN  Is(put.x.undo) /\ \E d \in FailedSyncs(put.d) : Becomes(h,
            IF Keeps("any other failed sync has that mark written again, too") THEN WriteMarkAgain(d, put.x) ELSE Both(d, put.x))
    /\ PromiseAsBefore /\ UNCHANGED <<lock, rotten>>

(* The mark is durable before SQLite is told of a checkpoint: from then on damage is told, whatever becomes of it. *)
FlushMark(h) ==
    /\ Idle(h) /\ handle[h].durable /\ ~Is(handle[h].undo) /\ ~vouched /\ Rots > 0 /\ ~handle[h].fellBack
    /\ LET marked == IF IsMarked(handle[h]) THEN Both(disk, handle[h]) ELSE WriteMark(disk, handle[h])
           d == IF Keeps("the mark of a checkpoint is durable before SQLite is told") THEN Sync(marked.d) ELSE marked.d
       IN  Becomes(h, IF marked.x.marked.durable THEN marked ELSE Both(d, [marked.x EXCEPT !.marked.durable = TRUE]))
    /\ Promise(published, IF IsMarked(handle[h]) /\ handle[h].marked.durable THEN possible ELSE {published}, TRUE)
    /\ UNCHANGED <<lock, budget, rotten>>

FlushMarkFails(h) ==
    /\ Idle(h) /\ handle[h].durable /\ ~Is(handle[h].undo) /\ ~vouched /\ Rots > 0 /\ Spend("failures")
    /\ LET marked == IF IsMarked(handle[h]) THEN Both(disk, handle[h]) ELSE WriteMark(disk, handle[h])
       IN  \E d \in FailedSyncs(marked.d) : Becomes(h,
            IF Keeps("a mark whose flush failed is written again before it counts as flushed")
            THEN LET again == WriteMarkAgain(d, marked.x) IN Both(again.d, [again.x EXCEPT !.marked = None])
            ELSE Both(d, marked.x))
    /\ PromiseAsBefore /\ UNCHANGED <<lock, rotten>>

(* What it wrote to free space stays there. *)
RollBack(h) ==
    /\ lock = h /\ Is(handle[h].change)
    /\ handle' = [handle EXCEPT ![h].change = None]
    /\ PromiseAsBefore /\ UNCHANGED <<disk, lock, budget, rotten>>

(* The lock goes: a commit that failed and cannot be undone now stays, as others may go on from it. *)
Unlock(h) ==
    /\ Idle(h) /\ lock' = 0
    /\ \E put \in Undone(disk, handle[h], Is(handle[h].undo) /\ ~handle[h].undo.written) :
        /\ disk' = put.d
        /\ handle' = [handle EXCEPT ![h] =
            IF Keeps("a commit that failed is undone while the lock to write is there, or stays")
            THEN [put.x EXCEPT !.undo = None, !.before = None] ELSE put.x]
        /\ Promise(State(JudgeNow(put.d.now, FALSE).record), possible, vouched)
    /\ UNCHANGED <<budget, rotten>>

Kill(h) ==
    /\ lock = h /\ Spend("kills") /\ lock' = 0
    /\ handle' = [handle EXCEPT ![h] = Closed]
    /\ Promise(State(JudgeNow(disk.now, FALSE).record), possible, vouched)
    /\ UNCHANGED <<disk, rotten>>

(* The power goes, and comes back: each place has any of what it may have. *)
PowerLoss ==
    /\ Spend("crashes") /\ ~rotten
    /\ \E slots \in {f \in [Slots -> UNION {disk.may[Slot(s)] : s \in Slots}] : \A s \in Slots : f[s] \in disk.may[Slot(s)]},
          marks \in {f \in [Slots -> UNION {disk.may[Mark(s)] : s \in Slots}] : \A s \in Slots : f[s] \in disk.may[Mark(s)]} :
        LET wanted(b) == {slots[s].map[page].content : <<s, page>> \in {sp \in Slots \X Pages :
                            IsRecord(slots[sp[1]]) /\ slots[sp[1]].map[sp[2]].block = b}}
            may(b) == {IF content \in wanted(b) THEN content ELSE Torn : content \in disk.may[Block(b)]}
        IN  \E contents \in {f \in [Blocks -> Values \cup {Torn}] : \A b \in Blocks : f[b] \in may(b)} :
            LET now == [place \in Places |-> IF place[1] = "slot" THEN slots[place[2]]
                            ELSE IF place[1] = "mark" THEN marks[place[2]] ELSE contents[place[2]]]
                found == JudgeNow(now, FALSE)
            IN  /\ ~found.error
                /\ disk' = [now |-> now, may |-> [place \in Places |-> {now[place]}], lost |-> [place \in Places |-> {}]]
                /\ Promise(State(found.record), {State(found.record)}, FALSE)
    /\ handle' = [h \in Handles |-> Closed] /\ lock' = 0
    /\ UNCHANGED rotten

(* A part of the newest commit rots, after it was vouched for, or its slot has the former content again. *)
First == [seq |-> 1, map |-> [page \in Pages |-> [block |-> page, content |-> 0]]]
Rot ==
    /\ vouched /\ Spend("rots")
    /\ LET newest == JudgeNow(disk.now, FALSE)
           rotted(place, value, marks) == disk' = [disk EXCEPT
                !.now = [p \in Places |-> IF p = place THEN value ELSE IF p \in marks THEN Torn ELSE @[p]],
                !.may = [p \in Places |-> IF p = place THEN {value} ELSE IF p \in marks THEN {Torn} ELSE @[p]]]
       IN  \/ rotted(Slot(newest.slot), First, {})
           \* With the mark, which is beside it.
           \/ \E marks \in {{}, {Mark(newest.slot)}} :
                \/ rotted(Slot(newest.slot), TornRecord, marks)
                \/ \E b \in Refers(newest.record) : rotted(Block(b), Torn, marks)
    /\ rotten' = TRUE /\ PromiseAsBefore
    /\ handle' = [h \in Handles |-> Closed] /\ lock' = 0

Next ==
    \/ ~rotten /\ \E h \in Handles :
        \/ Open(h) \/ Publish(h) \/ PublishFails(h) \/ Flush(h) \/ FlushFails(h) \/ FlushUndo(h) \/ FlushUndoFails(h)
        \/ FlushMark(h) \/ FlushMarkFails(h) \/ RollBack(h) \/ Unlock(h) \/ Kill(h)
        \/ \E page \in Pages, value \in Values : Change(h, page, value)
    \/ PowerLoss
    \/ ~rotten /\ Rot

Init ==
    LET now == [place \in Places |-> IF place[1] = "slot" THEN First ELSE IF place[1] = "mark" THEN 1
                    ELSE IF place[2] \in Refers(First) THEN 0 ELSE Torn]
    IN  /\ disk = [now |-> now, may |-> [place \in Places |-> {now[place]}], lost |-> [place \in Places |-> {}]]
        /\ handle = [h \in Handles |-> Closed] /\ lock = 0
        /\ published = State(First) /\ possible = {State(First)} /\ vouched = FALSE
        /\ budget = [crashes |-> Crashes, kills |-> Kills, failures |-> Failures, rots |-> Rots] /\ rotten = FALSE

Spec == Init /\ [][Next]_vars

(*************************************** what has to hold ***************************************)

Undoing == \E h \in Handles : IsOpen(handle[h]) /\ Is(handle[h].undo) /\ ~handle[h].undo.written

(* Whatever a power loss leaves now, the file opens at a state that was committed, nothing durable is lost, and all of *)
(* that state is there. If a part has rotted, it opens at the right state or is an error. *)
Leaves(place, value) == disk.may[place] = {value}
NothingIsLost ==
    \A one \in disk.may[Slot(1)], two \in disk.may[Slot(2)], first \in disk.may[Mark(1)], second \in disk.may[Mark(2)] :
      \A whole \in BOOLEAN :
        LET slots == <<one, two>>
            at == IF IsRecord(one) /\ (~IsRecord(two) \/ one.seq >= two.seq) THEN 1 ELSE 2
            newer(page) == ~IsRecord(slots[Other(at)]) \/ slots[at].map[page] # slots[Other(at)].map[page]
            own == {slots[at].map[page] : page \in {page \in Pages : newer(page)}}
            canBe == IF ~IsRecord(slots[at]) THEN TRUE
                     ELSE IF whole THEN \A ref \in own : ref.content \in disk.may[Block(ref.block)]
                     ELSE \E ref \in own : disk.may[Block(ref.block)] # {ref.content}
            isWhole(r, base) == whole
            found == Judge(slots, <<first, second>>, isWhole, FALSE)
            isThere == \A page \in Pages : LET ref == found.record.map[page] IN
                        \/ Leaves(Block(ref.block), ref.content)
                        \/ whole /\ ref \in own /\ found.slot = at
        IN  canBe => IF found.error THEN rotten
                     ELSE State(found.record) \in possible /\ (rotten \/ isThere)

(* Running processes, and those that open the file now, see what was published last. *)
AllSeeTheNewest ==
    rotten \/ Undoing \/
        LET found == JudgeNow(disk.now, FALSE)
        IN  ~found.error /\ State(found.record) = published /\ IsThere(disk.now, found.record)

(* A reader finds each page of its commit, or finds that the slots have changed. *)
NoReaderMeetsDamage ==
    rotten \/ \A h \in Handles : ~IsOpen(handle[h]) \/ IsThere(disk.now, handle[h].at)
        \/ (Keeps("a stale read compares the slots again before it reports damage") /\ handle[h].slots # SlotsOf(disk.now))

=============================================================================
