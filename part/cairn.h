/* cairn.h: for programs that want to take part in their checkpoints.

   Link with -lcairn-part. A program that isn't run under cairn (or whose cairn is of another version) runs as
   ever: cairn_enabled() is 0, sections and hooks do nothing, and cairn_checkpoint() says CAIRN_DISABLED.
   All functions may be called from any thread, but not from a signal handler, and not in a child of vfork.
   They leave no descriptor open. The names here stay as they are for as long as CAIRN_API is 1.

   Programs that are restored are saved again like any others: all of this holds after a restart as before. */
#ifndef CAIRN_H
#define CAIRN_H

#define CAIRN_API 1

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CAIRN_ORIGINAL = 0,  /* this is the process that was saved: it goes on */
    CAIRN_RESTARTED = 1, /* this process came back from the checkpoint */

    /* What failed; those above -10 are exit codes of `cairn checkpoint`. The reason is in the session's
       coordinator.log. */
    CAIRN_FAILED = -1,
    CAIRN_REFUSED = -3,        /* something can't be saved, or somebody forbids it */
    CAIRN_NO_COORDINATOR = -5, /* nobody answers */
    CAIRN_TIMED_OUT = -6,
    CAIRN_DISABLED = -20, /* not under cairn, or the process is no member (any more) */
    CAIRN_BUSY = -21, /* from within a hook, or a section of the calling thread: it would wait for itself */
    CAIRN_NO_MEMORY = -22
};

/* 1: the process belongs to a session of cairn's, else 0. */
int cairn_enabled(void);

/* Asks for a checkpoint of the whole computation, with the session's settings, and waits for it. Returns
   CAIRN_ORIGINAL when it is durable; CAIRN_RESTARTED in the process that came back from it, or from any other
   checkpoint that was taken while this call waited; or a failure: nothing was saved, and all go on. The hooks
   of this process (below) have been called before it returns. seconds: how long to wait, 0: as long as it
   takes. After CAIRN_TIMED_OUT the checkpoint may still be taken. */
int cairn_checkpoint(int seconds);

/* A section in which no checkpoint is taken: cairn_forbid() ... cairn_allow(), which nest. Costs some
   instructions and no system call, but for the first time. A checkpoint that is asked for meanwhile waits
   until nobody is in a section, 30 seconds, and is refused then, naming the process. While it waits, and
   until it has stopped the program, cairn_forbid() waits in threads that are in no section: a thread in a
   section must not wait for one that is about to begin its own. A child of fork() is in as many sections as
   its parent was, and leaves them itself. cairn_allow() without cairn_forbid(): CAIRN_FAILED. */
int cairn_forbid(void);
int cairn_allow(void);

/* Called by a thread that the library makes for it, which has all signals blocked; in the order in which they
   were registered, and after and restarted in the opposite one. Each may be NULL.

   before: a checkpoint is about to be taken; the program's other threads run. Anything but 0 refuses it (with
   the text that cairn_refuse() was given). It has 30 seconds, those of all processes together; who isn't
   ready then is named and the checkpoint given up. Nothing is stopped before every process has said that it
   is ready. after:  the program goes on. what is CAIRN_ORIGINAL when it has been stopped and copied (that the
   copy reaches the disk isn't known yet: cairn_checkpoint() says so), or CAIRN_FAILED when the checkpoint was
   given up. Called for all hooks whose before was called. restarted: instead of after, in the process that
   came back. The program's other threads run from the same moment on: what they must not do before this is
   over they have to wait for themselves (a lock that before takes and after and restarted release does it: a
   lock taken by `before` belongs to the hooks' thread).

   Sections are waited for first, and hooks are called when nobody is in one: a lock that a hook takes must
   not be held around cairn_forbid(). Hooks may make any call but cairn_checkpoint() (CAIRN_BUSY). They belong
   to the process that has registered them: neither a child of fork() nor a program that is executed has them.
 */
struct cairn_callbacks {
    int (*before)(void* data);
    void (*after)(int what, void* data);
    void (*restarted)(void* data);
    void* data;
};
int cairn_hooks(const struct cairn_callbacks* hooks); /* copied; 0 or a failure */

/* In `before`: why it will return something else than 0, for the message. */
void cairn_refuse(const char* why);

#ifdef __cplusplus
}
#endif
#endif
