"""Celery's tasks for the scenarios of its brokers. Needs `pip install celery packaging`."""

import os
import subprocess
import sys
import time

from celery import Celery

app = Celery("tasks", broker=os.environ.get("BROKER"), backend=os.environ.get("BACKEND"))
app.conf.broker_connection_retry_on_startup = True


@app.task(bind=True, max_retries=1)
def work(self, number):
    if number == 2 and self.request.retries == 0:
        raise self.retry(countdown=0)
    return number + 1


def queue(broker, backend=None):
    """Queues tasks by one process and runs them in another."""
    here = os.path.dirname(os.path.abspath(__file__))
    environment = os.environ | {"BROKER": broker} | ({"BACKEND": backend} if backend else {})
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool=solo", "--loglevel=ERROR",
         "--without-gossip", "--without-mingle", "--without-heartbeat"],
        cwd=here, env=environment,
    )
    try:
        time.sleep(6)
        # One at a time: what follows 1,024 bytes of one call would not be recorded.
        sender = "import tasks, time\nfor number in range(4): tasks.work.delay(number); time.sleep(1)\n"
        subprocess.run([sys.executable, "-c", sender], cwd=here, env=environment, check=True)
        time.sleep(4)
    finally:
        worker.terminate()
        worker.wait(timeout=20)
