// A library that calls back from a frame of FRAME_BYTES, at the same place in its code whatever
// that is.
#pragma GCC visibility push(default)
extern "C" void call_back(void (*function)()) {
  volatile char frame[FRAME_BYTES];
  frame[0] = 0;
  function();
  frame[FRAME_BYTES - 1] = frame[0];
}
#pragma GCC visibility pop
