// Messages between coordinators, between one and its capture, and from one to its successor, as JSON.
#include "common/wire/hosts.h"

#include "common/wire/capture.h"
#include "common/wire/connections.h"
#include "common/wire/pack.h"
#include "common/wire/state.h"

namespace cairn::wire {

CAIRN_MESSAGE(HostGreeting);
CAIRN_MESSAGE(Joined);
CAIRN_MESSAGE(Left);
CAIRN_MESSAGE(Starting);
CAIRN_MESSAGE(Ask);
CAIRN_MESSAGE(Gone);
CAIRN_MESSAGE(Report);
CAIRN_MESSAGE(Welcome);
CAIRN_MESSAGE(Refused);
CAIRN_MESSAGE(State);
CAIRN_MESSAGE(Answer);
CAIRN_MESSAGE(Order);
CAIRN_MESSAGE(Prepare);
CAIRN_MESSAGE(Prepared);
CAIRN_MESSAGE(CapturePart);
CAIRN_MESSAGE(Pass);
CAIRN_MESSAGE(CapturedPart);
CAIRN_MESSAGE(Seal);
CAIRN_MESSAGE(Sealed);
CAIRN_MESSAGE(Publish);
CAIRN_MESSAGE(Published);
CAIRN_MESSAGE(Finish);
CAIRN_MESSAGE(Finished);
CAIRN_MESSAGE(GiveUp);
CAIRN_MESSAGE(HostList);
CAIRN_MESSAGE(SavedState);
CAIRN_MESSAGE(CaptureRequest);
CAIRN_MESSAGE(CaptureDone);
CAIRN_MESSAGE(Barrier);
CAIRN_MESSAGE(PassedBarrier);
CAIRN_MESSAGE(Nothing);
CAIRN_MESSAGE(Stopped);
CAIRN_MESSAGE(AllStopped);
CAIRN_MESSAGE(HostConnections);
CAIRN_MESSAGE(MatchedConnections);
CAIRN_MESSAGE(Flowed);
CAIRN_MESSAGE(HostCaptured);
CAIRN_MESSAGE(EndSays);

}  // namespace cairn::wire
