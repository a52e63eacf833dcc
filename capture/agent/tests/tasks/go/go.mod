module spanwise.test/tasks

go 1.21
